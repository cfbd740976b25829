"""Hindsight for judges in the environment, which are called once, when an episode ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.core import Transition
from rl_training.core.goals import ACHIEVED, DESIRED, Judge, differing_rewards
from rl_training.experience.hindsight import EpisodePosition, Hindsight, HindsightSettings, choose_step

if TYPE_CHECKING:
    from rl_training.experience.ring import Ring, RingColumns

COMPARED_ROWS = 10_000  # at the start of a run, whose rewards are compared with those that the judge gives


class JudgedAtEnd(Hindsight):
    """Hindsight for rewards that the environment computes on the CPU: every row gets k goals when its episode ends.

    They are stored with their rewards over the steps of an n-step return. This is what storing k further copies of
    every row would give, without the copies.
    """

    def __init__(
        self, settings: HindsightSettings, ring: Ring, judge: Judge, *, n_steps: int, seed: int, in_env_units: Judge
    ) -> None:
        super().__init__(settings, ring, judge)
        self.in_env_units = in_env_units  # the judge before rewards are scaled, which steps are compared with
        self.n_steps = n_steps
        self.generator = torch.Generator().manual_seed(seed)
        self.compared = self.contradicted = 0  # rows since the start of this process

    @staticmethod
    def table(settings: HindsightSettings, n_steps: int) -> dict[str, tuple[int, torch.dtype]]:
        """Returns the columns in which a replay stores goals, a dict name -> (numbers per row, dtype)."""
        judged = settings.k * n_steps
        return {
            "offset": (settings.k, torch.int32),  # steps to the one whose achieved goal it is
            "reward": (judged, torch.float32),
            "terminated": (judged, torch.bool),
        }

    def offset(self, storage: RingColumns, row: Tensor, turn: Tensor, position: EpisodePosition) -> Tensor:
        return storage.goals["offset"][row, turn.long()].long()

    def judging(
        self, storage: RingColumns, row: Tensor, turn: Tensor, goal: Tensor
    ) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
        first = turn.long() * self.n_steps
        reward, terminated = storage.goals["reward"], storage.goals["terminated"]
        return lambda _, step: (reward[row, first + step], terminated[row, first + step])

    def compare(self, steps: Transition) -> None:
        """Compares the rewards of [time, env] steps with those that the environment's `compute_reward` gives.

        Raises a ValueError if more than one has differed since the process began: rewards for other goals would be
        wrong. A single one may differ, because goals are rounded to 32 bits and a threshold may lie between.
        """
        assert isinstance(steps.next_obs, dict)
        rows = steps.valid.cpu()
        goals = (steps.next_obs[key] for key in (ACHIEVED, DESIRED))
        achieved, desired = (
            (goal[:, :, -1] if self.ring.frame_stack > 1 else goal).cpu()[rows] for goal in goals
        )  # of stacked frames the last
        given, judged = steps.reward.cpu()[rows], self.in_env_units(achieved, desired)[0]
        wrong = differing_rewards(given, judged).nonzero().flatten().tolist()
        self.compared, self.contradicted = self.compared + len(given), self.contradicted + len(wrong)
        if self.contradicted > 1:
            row = wrong[-1]
            raise ValueError(
                f"`compute_reward` gives {judged[row]:g} for goals that `step` rewarded with {given[row]:g} (achieved "
                f"{achieved[row].tolist()}, desired {desired[row].tolist()}), in {self.contradicted} of {self.compared} steps: let "
                "`step` return what `compute_reward` does, or drop experience.hindsight"
            )

    def added(self, steps: Transition) -> None:
        if self.compared < COMPARED_ROWS and steps.valid.any():
            self.compare(steps)
        ended = (steps.terminated | steps.truncated).cpu()
        if not ended.any():
            return
        advance = ended + 1
        ahead = advance.cumsum(0)
        number = self.ring.columns.written.cpu() - ahead[-1] + ahead - advance
        for time, env in ended.nonzero().tolist():
            self.label(env, int(number[time, env]))

    def cut(self, was_open: Tensor) -> None:
        for env in was_open.nonzero().flatten().tolist():
            self.label(env, int(self.ring.columns.written[env]) - 2)  # the last number is of its last observation

    def label(self, env: int, last: int) -> None:
        """Chooses k goals for every stored row of environment `env`'s ended episode; stores their offsets and rewards.

        `last` is the row number of its last step in this environment's own count, where last observations are rows too.
        """
        ring, columns, k = self.ring, self.ring.columns, self.settings.k
        stored = last - int(columns.written[env]) + ring.slots
        length = min(int(columns.age[last % ring.slots * ring.num_envs + env]) + 1, stored)
        if length <= 0:  # more was written at once than the ring holds
            return
        number = torch.arange(last - length + 1, last + 1)
        row = (number % ring.slots * ring.num_envs + env).to(ring.device)
        achieved = self.achieved(columns, row).cpu()
        time = torch.arange(length).unsqueeze(1)
        position = EpisodePosition(length - 1 - time, time)
        uniform = torch.rand(length, k, generator=self.generator, dtype=torch.float64)
        offset = choose_step(self.settings.strategy, uniform, position).expand(length, k)
        later = (time + torch.arange(self.n_steps)).clamp(max=length - 1)
        shape = (length, k, self.n_steps, *achieved.shape[1:])
        reached = achieved[later].unsqueeze(1).expand(shape).flatten(0, 2)
        desired = achieved[time + offset].unsqueeze(2).expand(shape).flatten(0, 2)
        reward, terminated = self.judge(reached, desired)
        made = {"offset": offset, "reward": reward.view(length, -1), "terminated": terminated.view(length, -1)}
        for name, values in made.items():
            columns.goals[name][row] = values.to(ring.device, columns.goals[name].dtype)

    def state_dict(self) -> dict:
        """Returns the stored goals of all rows (`goals`, tensors by name) and the random state (`judged`).

        All rows are in it, since a row may have been saved before it got its goals.
        """
        return {"goals": dict(self.ring.columns.goals), "judged": self.generator.get_state()}

    def load_state_dict(self, state: dict) -> None:
        for name, column in self.ring.columns.goals.items():
            column.copy_(state["goals"][name])
        self.generator.set_state(state["judged"])
