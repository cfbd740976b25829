"""Base classes of algorithms: networks, optimizers and the update's maths; no environments, loops, files or devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from rl_training.core.arguments import refuse_settings
from rl_training.core.members import Members, step_rows
from rl_training.core.needs import Absent, Needs, Supply
from rl_training.core.optimizer import Optimizer
from rl_training.core.passes import Pass
from rl_training.core.policy import Policy
from rl_training.core.ranges import Share
from rl_training.core.ranks import ALONE, Ranks
from rl_training.core.schedule import Scheduled
from rl_training.core.spaces import Spec
from rl_training.core.tree import Tree
from rl_training.core.types import BatchT, Column, Loss, Metrics, Step, Transition


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """Base class of algorithms' settings: a frozen dataclass with a field per hyperparameter, made by keywords only."""

    needs: ClassVar[Needs] = Needs("data")
    absent: ClassVar[Mapping[str, Absent]] = MappingProxyType({})
    refusal: ClassVar[Callable] = staticmethod(refuse_settings)  # `config`, which knows all settings, sets its own

    gamma: Share = 0.99

    if not TYPE_CHECKING:  # a type checker compares calls with the fields

        def __new__(cls, *by_position: object, **settings: object) -> Self:
            if by_position or not settings.keys() <= {field.name for field in fields(cls)}:
                raise cls.refusal(cls, by_position, settings)
            return super().__new__(cls)

    def check(self, supply: Supply) -> None:
        """Raises a ValueError that names the field if settings contradict each other or the facts in `supply`."""

    def fitted(self, supply: Supply) -> Self:
        """Returns the settings with values that depend on `supply` filled in, such as gradient_steps=-1."""
        return self


ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)


class Algorithm(nn.Module, ABC, Generic[ConfigT, BatchT]):
    """A learning method: its policy, other networks and optimizers, and the tensor code that updates them from batches.

    `BatchT` is the type of its batches: `StepBatch` from a replay or dataset, or the result of `prepare` for a rollout.
    """

    critic_apart: ClassVar[bool] = False  # True: its critic may see other observations than its policy
    teams: ClassVar[bool] = False  # True: its environments have several agents
    corrects_lag: ClassVar[bool] = False  # True: it learns from rollouts of an older policy as from its own
    why_not_shared: ClassVar[str | None] = None  # what keeps a batch from being shared by ranks; None: nothing does
    fixed_shapes: bool = False  # True: `prepare` is recorded as a CUDA graph, so shapes must not depend on values
    why_not_stacked: ClassVar[str | None] = "has not been tried as part of a stack"  # of members; None: it can be
    may_differ: ClassVar[tuple[str, ...]] = ("gamma",)  # settings that are numbers of its own in each member of a stack
    ranks: Ranks = ALONE  # those that take this update together, each with its share of the batch
    stack: Members | None = None  # several of it as one: tensors and batches have a first dimension for them; None: one
    policy: Policy
    stop: Tensor  # sticky within an iteration: the remaining updates leave everything as it is
    failed: Tensor  # sticky for good: a loss or gradient was not finite

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        super().__init__()
        self.config, self.spec = config, spec
        self.optimizers = nn.ModuleDict()
        self.schedules: list[Scheduled] | None = None
        self.register_buffer("stop", torch.tensor(False))
        self.register_buffer("failed", torch.tensor(False))

    def prepare(self, rollout: Transition) -> tuple[BatchT, Metrics]:
        """Returns a batch and metrics for a [time, env] rollout; raises a TypeError if this class takes none."""
        raise TypeError(f"{type(self).__name__} does not learn from rollouts and has none to prepare")

    def augment(self, batch: BatchT) -> BatchT:
        """Returns a batch as all losses of one update see it, such as with changed pictures; by default as it is."""
        return batch

    @abstractmethod
    def passes(self) -> tuple[Pass, ...]:
        """Returns the passes over the rollout, replay or dataset that make up one training iteration, in order."""

    @abstractmethod
    def update(self, batch: BatchT) -> Step:
        """Changes the networks by one optimization step on a batch; returns metrics and outputs per row."""

    @property
    def why_not_recorded(self) -> str | None:
        """Returns why a training iteration cannot be recorded as one CUDA graph; None if it can."""
        if any(p.sequences or not p.one_graph for p in self.passes()):
            return f"{type(self).__name__} has updates whose shapes vary"
        return "running statistics (normalize_observation, normalize_reward) are kept" if self.observes else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns that every stored step must have besides the fields of `Transition`; () by default."""
        return ()

    @property
    def observes(self) -> bool:
        """Says if the algorithm keeps running statistics of observations, which `observe` updates."""
        return False

    def observe(self, obs: Tree, valid: Tensor) -> None:
        """Adds observations in rows where the bool mask `valid` is True to running statistics; does nothing here."""

    def diagnose(self, batch: BatchT) -> Metrics:
        """Returns metrics of the networks' health on a batch, such as TD errors, for evaluations; {} by default."""
        return {}

    def values(self, obs: Tree) -> Tensor | None:
        """Returns the critic's estimate of every row's discounted return; None if the algorithm has no such critic."""
        return None

    def wants_stop(self, metrics: Metrics) -> Tensor | None:
        """Returns a 0-dim bool tensor, True to skip this update and the rest of the iteration; None means never."""
        return None

    def minimize(self, loss_fn: Callable[[BatchT], Loss], batch: BatchT, name: str) -> Step:
        """Steps optimizer `name` on `loss_fn(batch)` unless `self.stop` is True or a gradient is not finite."""
        optimizer, stack = self.optimizer(name), self.stack
        loss = loss_fn(batch) if stack is None else stack.loss(name, loss_fn, batch)
        value = loss.value if stack is None else loss.value.sum()  # of which each has the gradient of its own
        grads = torch.autograd.grad(value, optimizer.targets, allow_unused=True, materialize_grads=True)
        grads, metrics = self.reduce_gradients(grads, loss.metrics, batch.weight)
        wants_stop = self.wants_stop(metrics)
        if wants_stop is not None:
            self.stop.logical_or_(wants_stop)
        step = optimizer.step if stack is None else partial(step_rows, optimizer)
        finite = step(grads, enabled=~self.stop)
        infinite = ~finite
        self.failed.logical_or_(infinite)
        self.stop.logical_or_(infinite)
        return Step(metrics, loss.rows)

    def optimizer(self, name: str) -> Optimizer:
        optimizer = self.optimizers[name]
        assert isinstance(optimizer, Optimizer)
        return optimizer

    def reduce_gradients(
        self, grads: Sequence[Tensor], metrics: Metrics, weight: Tensor
    ) -> tuple[Sequence[Tensor], Metrics]:
        """Returns gradients and metrics averaged over all ranks (processes), each weighted by its sum of `weight`."""
        if self.ranks.number == 1:
            return grads, metrics
        pooled = self.ranks.means([*grads, *metrics.values()], weight)
        return pooled[: len(grads)], dict(zip(metrics, pooled[len(grads) :], strict=True))

    def set_progress(self, progress: float) -> None:
        """Sets every hyperparameter with a schedule to its value when `progress` (0 to 1) of the run is done."""
        if self.schedules is None:  # found once: walking all modules costs more than a small update's arithmetic
            self.schedules = [module for module in self.modules() if isinstance(module, Scheduled)]
        for scheduled in self.schedules:
            scheduled.set_progress(progress)
