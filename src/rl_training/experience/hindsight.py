"""Hindsight (Andrychowicz et al., 2017, arXiv:1707.01495): rows learned from as if a goal of their episode had been desired.

Of k + 1 rows that are drawn, k get another goal, one achieved by a step of the same episode. Their rewards and ends
are those that the goal would have given. Rows of episodes that have not ended keep their own goals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from rl_training.core import StepBatch, Transition, Tree
from rl_training.core.goals import ACHIEVED, DESIRED, Judge
from rl_training.core.ranges import Natural
from rl_training.functional import ENDED, TERMINATED

if TYPE_CHECKING:
    from rl_training.experience.ring import Ring, RingColumns

Strategy = Literal["future", "final", "episode"]
KEPT = 255 - TERMINATED  # of a row's flags
FINE = 2**26  # the digits of a draw after this are as good as independent of those that choose its row


@dataclass(frozen=True, kw_only=True)
class HindsightSettings:
    """Settings of hindsight, which learns from rows as if a goal that their episode achieved had been desired.

    `strategy` chooses the step whose goal it is; k such rows are drawn for each row with its own goal, on average.
    """

    strategy: Strategy = "future"  # achieved at the row's step or later; at the end of its episode; anywhere in it
    k: Natural = 4  # rows with another goal for each row with its own; 0: none


class EpisodePosition(NamedTuple):
    """The positions of rows in their episodes, two tensors [rows]: numbers of later steps and of earlier rows.

    The first is negative where the episode has not ended; earlier rows count as far as they are still stored.
    """

    left: Tensor  # steps of the episode after the row's; negative where it has not ended
    back: Tensor  # rows of the episode before it, as far as they are stored


class OtherGoals(NamedTuple):
    """Desired goals that replace those of some rows of a batch, and a function that computes rewards for them."""

    chosen: Tensor  # rows that get theirs
    goal: Tensor
    judged: Callable[[Tensor, int], tuple[Tensor, Tensor]]  # of rows so many steps later: rewards, and where they end

    def read(self, storage: RingColumns, row: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Returns the rewards and flag bits, [rows] each, of the stored steps with the row indices `row`.

        Each comes `step` steps after a row of the batch. Where that row has another goal, they are computed for it;
        elsewhere they are as stored.
        """
        flags, (reward, reached) = storage.flags[row], self.judged(row, step)
        judged = (flags & KEPT) | (reached * (TERMINATED | ENDED)).to(flags.dtype)
        return torch.where(self.chosen, reward, storage.reward[row]), torch.where(self.chosen, judged, flags)

    def put_into(self, batch: StepBatch) -> StepBatch:
        return batch._replace(obs=self.replaced(batch.obs), next_obs=self.replaced(batch.next_obs))

    def replaced(self, obs: Tree) -> Tree:
        assert isinstance(obs, dict)
        own, rows = obs[DESIRED], len(self.goal)
        shape = (
            (rows,) + (1,) * (own.ndim - self.goal.ndim) + self.goal.shape[1:]
        )  # every frame of a stack has the goal
        chosen = self.chosen.view(rows, *[1] * (own.ndim - 1))
        return obs | {DESIRED: torch.where(chosen, self.goal.view(shape), own)}


class Hindsight(ABC):
    """Base of the rules that give rows drawn from a replay other desired goals, which their episodes achieved."""

    def __init__(self, settings: HindsightSettings, ring: Ring, judge: Judge) -> None:
        self.settings, self.ring, self.judge = settings, ring, judge

    def choose(self, storage: RingColumns, row: Tensor, draw: Tensor) -> OtherGoals:
        """Returns other goals for k of k + 1 of the row indices `row`, on average, as `OtherGoals`.

        `draw` [rows] are the numbers in [0, 1) that selected the rows; no others are drawn. Rows of episodes that have
        not ended keep their goals. Pure tensor code, because it is compiled with the update.
        """
        position = self.ring.episode_position(storage, row)
        turn = draw * FINE % 1 * (self.settings.k + 1) - 1  # one part in k + 1 is below 0, and keeps its goal
        offset = self.offset(storage, row, turn.clamp(min=0), position)
        chosen = (turn >= 0) & (position.left >= 0) & (offset >= -position.back)
        offset = torch.where(chosen, offset, 0)
        goal = self.achieved(storage, (row + offset * self.ring.num_envs) % self.ring.capacity)
        return OtherGoals(chosen, goal, self.judging(storage, row, turn.clamp(min=0), goal))

    def achieved(self, storage: RingColumns, row: Tensor) -> Tensor:
        """Returns the goals that the steps with the row indices `row` achieved, [rows, goal size]."""
        assert isinstance(storage.obs, dict)
        return storage.obs[ACHIEVED][self.ring.follow(row)]

    @abstractmethod
    def offset(self, storage: RingColumns, row: Tensor, turn: Tensor, position: EpisodePosition) -> Tensor:
        """Returns for each row the number of steps to the one whose achieved goal it gets, negative for earlier ones.

        All are [rows]: `turn`, in [0, k), says which of a row's k goals is taken.
        """

    @abstractmethod
    def judging(
        self, storage: RingColumns, row: Tensor, turn: Tensor, goal: Tensor
    ) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
        """Returns a function that gives rewards and terminations [rows] of later steps for `goal` [rows, goal size].

        Its arguments are the row indices of these steps, and how many steps they come after `row`. `turn` [rows], in
        [0, k), says which of a row's k goals it is.
        """

    def added(self, steps: Transition) -> None:
        """Chooses goals after [time, env] steps were added to the replay; does nothing by default."""

    def cut(self, was_open: Tensor) -> None:
        """Chooses goals for episodes that were cut, in the environments where the mask `was_open` [num_envs] is True.

        Does nothing by default.
        """

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Restores a result of `state_dict`; does nothing by default."""


class JudgedWhenDrawn(Hindsight):
    """Hindsight for reward functions of tensor code: goals are chosen and rewarded each time a row is drawn."""

    def offset(self, storage: RingColumns, row: Tensor, turn: Tensor, position: EpisodePosition) -> Tensor:
        return choose_step(self.settings.strategy, turn / self.settings.k, position)

    def judging(
        self, storage: RingColumns, row: Tensor, turn: Tensor, goal: Tensor
    ) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
        return lambda later, _: self.judge(self.achieved(storage, later), goal)


def choose_step(strategy: Strategy, uniform: Tensor, position: EpisodePosition) -> Tensor:
    """Returns for each row the number of steps from it to the one whose achieved goal it gets, as integers.

    Numbers `uniform` in [0, 1) choose: with the strategy "future" the row's own or a later step, with "episode" also an
    earlier one, a negative number. With "final" it is always the last step.
    """
    left = position.left.clamp(min=0)
    if strategy == "final":
        return left
    back = position.back if strategy == "episode" else torch.zeros_like(left)
    return (uniform * (back + left + 1)).long() - back
