"""The one environment contract: every backend and autoreset mode is turned into this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Spec, Tree, tree_leaves
from rl_training.envs.episode_columns import EpisodeColumns

StateKind = Literal["exact", "replayed", "boundary"]


class Lesson(NamedTuple):
    """The rewards and ends that a learner is given in place of the game's own, as tensors [num_envs].

    Logged episodes, their returns and lengths, and evaluations show the game's own.
    """

    reward: Tensor
    life_lost: Tensor  # True: learned from as a termination, though the game goes on


class EnvStep(NamedTuple):
    """The result of one step of all environments, as tensors [num_envs, ...]."""

    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    next_obs: Tree  # the true successor, also at the end of an episode
    obs: Tree  # what to act on next: the first observation of a new episode where the old one ended
    valid: Tensor  # False where the backend only reset an environment: no transition took place
    columns: EpisodeColumns = {}  # what `info` says of the episodes that ended in this step
    lesson: Lesson | None = None  # what is learned from instead of rewards and ends; None: these
    values: dict[str, Tensor] = {}  # further columns of the step, [num_envs, ...]: what each agent of a team earned


class VectorEnv(ABC):
    """Base of batches of environments that restart by themselves.

    `state_kind` says what a checkpoint can promise: `exact` (the state is saved), `replayed` (the episode is re-run
    from its random state and actions, and compared), or `boundary` (a resumed run starts new episodes).
    """

    num_envs: int
    spec: Spec
    state_kind: StateKind
    always_valid: bool = True  # False: `step` may return rows that only reset
    tensor_code: bool = False  # True: a step is a pure function of tensors, see NativeEnv
    proven: bool = False  # True: it continues from a saved state as it promises; nobody needs to try
    stepped_as: Literal["host", "tensors", "samplers"] = "host"  # by which a collector is chosen
    device: torch.device = torch.device("cpu")
    render_fps: float = 30  # pictures per second at which an episode looks natural
    filmed: bool = False  # set to True to be shown the end of each episode by `render_end`

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        """Asks that `EnvStep.columns` hold the numbers under these keys of `info`, for episodes that end.

        `is_success` is always asked for. Does nothing by default.
        """

    @abstractmethod
    def reset(self, seed: int) -> Tree:
        """Starts new episodes in all environments from one seed and returns the first observations, [num_envs, ...].

        They are one tensor, or a dict of tensors.
        """

    @abstractmethod
    def step(self, action: Tensor) -> EnvStep:
        """Steps all environments with actions [num_envs, ...] in their own units; restarts those whose episode ends."""

    @abstractmethod
    def get_state(self) -> dict:
        """Returns a dict of tensors and JSON values from which `set_state` can continue."""

    @abstractmethod
    def set_state(self, state: dict) -> Tree | None:
        """Continues from `state`, a result of `get_state`, and returns None.

        If it cannot, starts new episodes and returns their observations, [num_envs, ...].
        """

    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        """Returns rewards and terminations [n] of steps that achieved `achieved` if `desired` had been desired.

        Both are goals, [n, goal size]. Raises a TypeError if the environment cannot tell; `why_no_judge` says why.
        """
        raise TypeError(f"{type(self).__name__} judges no steps by other goals")

    @property
    def why_no_judge(self) -> str | None:
        """Returns why `judge` cannot be called, and the remedy, as a sentence; None if it can."""
        return f"{type(self).__name__} judges no steps by other goals: pass an id or a function"

    def render(self) -> np.ndarray | None:
        """Returns a picture of environment 0 as it is now, uint8 [height, width, 3]; None if it draws none, the default.

        After a step that ended an episode, this is the beginning of the new one. A video of an environment without such
        pictures shows its observations if they are pictures.
        """
        return None

    def render_end(self) -> np.ndarray | None:
        """Returns a picture of the last state of the episode of environment 0 that the last step has ended.

        Returns None if that state is gone, the default; then a video lacks this picture. Is called only if `filmed` is
        True, and only after such a step.
        """
        return None

    def close(self) -> None:
        """Ends the processes and windows of the environments; does nothing by default."""


def seeds_for(seed: int, num: int) -> list[int]:
    """Returns `num` independent seeds derived from `seed`, one per environment of a batch."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num)]


def following_seed(seed: int) -> int:
    """Returns a seed derived from `seed`, for new episodes of a resumed run that could not continue its old ones."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def same_trees(a: Tree | EnvStep, b: Tree | EnvStep) -> bool:
    """Returns True if two trees of tensors are equal in shapes and values; NaN equals NaN.

    Both must have the same number of tensors.
    """
    return all(same(x, y) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


def same(x: Tensor, y: Tensor) -> bool:
    """Returns True if two tensors are equal in shape and values; NaN equals NaN, because it is reported elsewhere."""
    return x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())
