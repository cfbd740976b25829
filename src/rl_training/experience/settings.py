"""The section `experience` of a config: every store's settings, what follows from them, and how it is built.

A further store is a class here, or elsewhere with `register_store`: it says which kind of experience it is, and
`experience.store` names it. Nothing else knows the stores or their fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Self

import torch

from rl_training.core import ActionConverter, Column, ExperienceKind, Pass, Spec, Supply
from rl_training.core.goals import GoalRewards
from rl_training.core.ranges import Count, Natural, Positive, Real, Several, Share
from rl_training.core.registry import Registry
from rl_training.data import Dataset
from rl_training.experience.base import Experience
from rl_training.experience.declared_columns import given_by
from rl_training.experience.hindsight import HindsightSettings
from rl_training.experience.logged import LoggedSteps
from rl_training.experience.mixture import Mixture, Pool
from rl_training.experience.replay import Replay
from rl_training.experience.reward_units import RAW, RETURN_RANGE, RewardUnits, scale_by_returns
from rl_training.experience.rollout import RewardScaling, Rollout
from rl_training.experience.sequences import wanted_sequences


class StoreContext(NamedTuple):
    """The facts about a run from which a store is built: spaces, sizes, device, data and the algorithm's needs."""

    spec: Spec
    num_envs: int
    gamma: float
    seed: int
    device: str  # of the networks
    frame_stack: int  # of the last observations that are stacked into one
    data: LoggedSteps | None  # what there is to learn from besides
    columns: Sequence[Column]  # what the algorithm needs of every step besides the step
    passes: Sequence[Pass]  # how it goes through what is stored
    goals: GoalRewards | None = None  # what other goals would have paid, where the environment can say it


@dataclass(frozen=True, kw_only=True)
class ExperienceSettings:
    """Base of the settings of stores of experience; used itself by methods that learn from data alone."""

    kind: ClassVar[ExperienceKind] = "data"

    store: str = "data"

    def check(self, num_envs: int, *, with_data: bool) -> None:
        """Raises a ValueError that names the field if settings contradict each other, `num_envs` or `with_data`.

        `with_data` says that there is a dataset to learn from. By default nothing can be wrong.
        """

    def supply(self, num_envs: int) -> Supply:
        """Returns facts to check an algorithm's settings against: rows to draw from, env steps per iteration."""
        return Supply(2**62, "the dataset", "add data")

    def shared_by(self, ranks: int) -> Self:
        """Returns the settings for one of `ranks` processes, which share the environments equally."""
        return self

    def with_envs(self, now: int, wanted: int) -> tuple[dict[str, int], int]:
        """Returns the fields to change, e.g. {"train_freq": 8}, if a run gets `wanted` instead of `now` environments.

        The second value is the factor by which iterations get longer.
        """
        return {}, 1

    def storage_device(self, device: str) -> str:
        """Returns the device of the store in a run on `device`."""
        return device

    def why_idle(self, start: int, end: int, num_envs: int) -> str | None:
        """Returns why no update happens between the env steps `start` and `end`, as a sentence; None if one does."""
        return None

    @property
    def mixes_data(self) -> bool:
        """Returns True if batches mix a dataset with the agent's own steps."""
        return False

    @property
    def has_goals(self) -> bool:
        """Returns True if the settings ask for hindsight, for which the environment must have goals."""
        return False

    @property
    def lookahead(self) -> int:
        """Returns how many rewards are summed before bootstrapping from a dataset's rows (n-step returns)."""
        return 1

    def rewards(self, dataset: Dataset | None) -> RewardUnits:
        """Returns the scale and shift of rewards before they are learned from; by default they stay as they are.

        `dataset` is for scales that depend on it; raises a DatasetError if such a scale cannot be computed.
        """
        return RAW

    def work(self, passes: Sequence[Pass], num_steps: int, num_envs: int) -> tuple[int, int]:
        """Returns the number of updates in `num_steps` env steps, and of the rows that they take; (0, 0) by default.

        `num_steps` counts the steps of all environments together.
        """
        return 0, 0

    def build(self, run: StoreContext) -> Experience:
        """Builds the store to which collected steps are added, from the facts about a run.

        Raises a TypeError (default) if the method learns from data alone.
        """
        raise TypeError("a method that learns from data alone has no place for steps of its own")

    def build_data(self, dataset: Dataset, convert: ActionConverter, run: StoreContext) -> LoggedSteps:
        """Builds a store that draws from a dataset; `convert` converts its actions to the policy's units."""
        device = torch.device(self.storage_device(run.device))
        return LoggedSteps(
            dataset,
            convert.on(device),
            gamma=run.gamma,
            seed=run.seed,
            n_steps=self.lookahead,
            rewards=self.rewards(dataset),
            columns=run.columns,
            sequences=wanted_sequences(run.passes),
            device=device,
        )


@dataclass(frozen=True, kw_only=True)
class RolloutSettings(ExperienceSettings):
    """Settings of a rollout: steps of the current policy, which are learned from and dropped."""

    kind: ClassVar[ExperienceKind] = "rollout"

    store: Literal["rollout"] = "rollout"
    n_steps: Count  # per environment and rollout
    normalize_reward: bool = False  # by the running deviation of the discounted return
    clip_reward: Positive = 10.0  # after normalisation

    def supply(self, num_envs: int) -> Supply:
        size = self.n_steps * num_envs
        name = f"a rollout (n_steps {self.n_steps} x n_envs {num_envs} = {size})"
        return Supply(size, name, "raise n_steps", num_steps=size)

    def with_envs(self, now: int, wanted: int) -> tuple[dict[str, int], int]:
        """Returns the field `n_steps` with which `wanted` instead of `now` environments collect as many steps together.

        Returns {} if `wanted` does not divide their number. The second value is 1: iterations get no longer.
        """
        size = now * self.n_steps
        return ({"n_steps": size // wanted}, 1) if size % wanted == 0 else ({}, 1)

    def work(self, passes: Sequence[Pass], num_steps: int, num_envs: int) -> tuple[int, int]:
        size = self.n_steps * num_envs
        updates = sum(p.rounds * math.ceil(size / (p.batch_size or size)) for p in passes)
        return num_steps // size * updates, num_steps * sum(p.rounds for p in passes)

    def why_idle(self, start: int, end: int, num_envs: int) -> str | None:
        size = self.n_steps * num_envs
        if end // size > start // size:
            return None
        return f"no rollout is complete in it (n_steps {self.n_steps} x n_envs {num_envs} = {size}), lower n_steps"

    def build(self, run: StoreContext) -> Rollout:
        scaling = RewardScaling(run.gamma, self.clip_reward) if self.normalize_reward else None
        return Rollout(
            self.n_steps,
            seed=run.seed,
            reward_scaling=scaling,
            columns=run.columns,
            given=given_by(run.spec),
            device=run.device,
        )


@dataclass(frozen=True, kw_only=True)
class ReplaySettings(ExperienceSettings):
    """Settings of a replay: the last steps, drawn repeatedly; names are Stable-Baselines3's, step counts env steps."""

    kind: ClassVar[ExperienceKind] = "replay"

    store: Literal["replay"] = "replay"
    buffer_size: Several = 1_000_000
    learning_starts: Natural = 100  # until then actions are random
    train_freq: Count = 4  # env steps of all environments together
    n_steps: Count = 1  # rewards summed before bootstrapping
    prioritized: bool = False
    per_alpha: Share = 0.6
    per_eps: Positive = 1e-6
    buffer_device: str | None = None  # None: where the networks are
    buffer_folder: str | None = None  # keep the buffer in a mapped file there instead of in memory
    offline_batch_ratio: Share | Literal["by_size"] = (
        0.5  # of a batch, if there is a dataset; by_size: any row is as likely
    )
    reward_scale: Positive | Literal["return_range"] = 1.0  # return_range: 1000 / the range of the data's returns
    reward_shift: Real = 0.0  # added after scaling, to rewards of the data and of own steps
    hindsight: HindsightSettings | None = None  # learn from rows as if achieved goals had been desired

    def check(self, num_envs: int, *, with_data: bool) -> None:
        if self.train_freq % num_envs:
            raise ValueError(
                f"experience.train_freq={self.train_freq} must be a multiple of env.n_envs={num_envs}, because it counts env "
                f"steps of all environments together: use {-(-self.train_freq // num_envs) * num_envs}"
            )
        if self.buffer_size < num_envs * self.n_steps:
            raise ValueError(
                f"experience.buffer_size={self.buffer_size} holds fewer than n_steps={self.n_steps} steps of {num_envs} "
                "environments: raise it"
            )
        if self.reward_scale == RETURN_RANGE and not with_data:
            raise ValueError(
                f"experience.reward_scale={RETURN_RANGE!r} is taken from the returns of a dataset, and there is none: pass "
                "dataset=, or give a number"
            )
        if with_data and self.prioritized:
            raise ValueError(
                "experience.prioritized=true with a dataset: data is drawn uniformly, use prioritized=false"
            )

    def supply(self, num_envs: int) -> Supply:
        name = f"buffer_size={self.buffer_size}"
        return Supply(self.buffer_size, name, "raise buffer_size", self.train_freq, weighted=self.prioritized)

    def with_envs(self, now: int, wanted: int) -> tuple[dict[str, int], int]:
        """Returns the field `train_freq` raised to a multiple of `wanted` environments, and the factor of the change.

        The fields are {} if it is a multiple already. An iteration then needs that factor of updates, too.
        """
        times = wanted // math.gcd(self.train_freq, wanted)
        return ({"train_freq": self.train_freq * times} if times > 1 else {}), times

    def shared_by(self, ranks: int) -> Self:
        """Returns the settings with counts of env steps divided by the ranks, rounded up.

        So they fall on the same steps as in one process.
        """
        return replace(
            self,
            train_freq=self.train_freq // ranks,
            learning_starts=-(-self.learning_starts // ranks),
            buffer_size=-(-self.buffer_size // ranks),
        )

    def storage_device(self, device: str) -> str:
        return self.buffer_device or device

    @property
    def mixes_data(self) -> bool:
        return isinstance(self.offline_batch_ratio, str) or self.offline_batch_ratio > 0

    @property
    def has_goals(self) -> bool:
        return self.hindsight is not None

    @property
    def relabels(self) -> HindsightSettings | None:
        """Returns the settings of hindsight if any rows get other goals, else None."""
        return self.hindsight if self.hindsight is not None and self.hindsight.k > 0 else None

    @property
    def lookahead(self) -> int:
        return self.n_steps

    def rewards(self, dataset: Dataset | None) -> RewardUnits:
        scale = self.reward_scale
        if isinstance(scale, str):
            assert dataset is not None  # else refused by `check`
            scale = scale_by_returns(dataset)
        return RewardUnits(scale, self.reward_shift)

    def work(self, passes: Sequence[Pass], num_steps: int, num_envs: int) -> tuple[int, int]:
        iterations = max(num_steps - self.learning_starts, 0) // self.train_freq
        updates = iterations * sum(p.rounds for p in passes)
        return updates, updates * max((p.batch_size or 0 for p in passes), default=0)

    def why_idle(self, start: int, end: int, num_envs: int) -> str | None:
        first = max(self.learning_starts, start + 1)
        if -(-first // self.train_freq) * self.train_freq <= end:
            return None
        if end < self.learning_starts:
            return f"updates begin at learning_starts={self.learning_starts}, lower it"
        return f"updates come every train_freq={self.train_freq} env steps, lower it"

    def build(self, run: StoreContext) -> Replay | Mixture:
        replay = Replay(self, run)
        if run.data is None or not self.mixes_data:
            return replay
        ratio = self.offline_batch_ratio
        return Pool(replay, run.data) if isinstance(ratio, str) else Mixture(replay, run.data, ratio)


STORES: Registry[type[ExperienceSettings]] = Registry("stores")
STORES |= {"rollout": RolloutSettings, "replay": ReplaySettings, "data": ExperienceSettings}


def register_store(name: str, settings: type[ExperienceSettings]) -> None:
    """Registers the settings class of a store: configs may then say `experience.store: <name>`, in this process.

    They must be of a method that needs `settings.kind`. Raises a ValueError if other settings have the name.
    """
    if STORES.get(name, settings) != settings:
        raise ValueError(f"the store name {name!r} is taken by {STORES[name].__name__}: choose another")
    STORES[name] = settings


def stores_for(kind: ExperienceKind) -> dict[str, type[ExperienceSettings]]:
    """Returns the settings classes of the stores of a kind, by name; the package's own is the first."""
    return {name: settings for name, settings in STORES.items() if settings.kind == kind}
