"""The interface between the loop and a store of experience."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from rl_training.core import Algorithm, BatchT, Metrics, Pass, Rows, StepBatch, Transition
from rl_training.experience.reward_units import RAW, RewardUnits
from rl_training.experience.sequences import Sequences

StorageT = TypeVar("StorageT")
Prepare = Callable[[Transition], tuple[Any, Metrics]]  # as `Algorithm.prepare`


class Experience(ABC, Generic[StorageT, BatchT]):
    """Base of stores of environment steps, from which batches to learn from are gathered.

    `prepare` returns the stored tensors, `draws` yields row indices or random numbers, and `gather` makes a batch of
    both. Methods on tensors (`write`, `prepare`, `gather`, `settle`) are apart from counting on the host
    (`count_added`, `count_learned`), so that they can be recorded as a CUDA graph.
    """

    on_policy: ClassVar[bool] = False  # True: acted and learned from with the same numbers, all of it, then dropped
    rewards: RewardUnits = RAW  # that are learned in
    notice: str | None = None  # what is said of it before a run: how much memory it takes, where that is much
    why_not_recorded: str | None = None  # as part of a CUDA graph with the steps that are added; None: it can be

    def __init__(self, device: torch.device | str, *generators: torch.Generator) -> None:
        self.device = torch.device(device)  # where the storage is
        self.generators = generators  # what draws take their numbers from

    @property
    @abstractmethod
    def wanted_steps(self) -> int:
        """Returns the number of steps that every environment has yet to take before the next update."""

    @property
    def warming_up(self) -> bool:
        """Returns True while actions are to be random instead of the policy's; False by default."""
        return False

    def steps_between(self, num_envs: int) -> int:
        """Returns how many steps each of `num_envs` environments takes between two rounds of updates.

        Raises a TypeError if no steps can be added to the store (default).
        """
        raise TypeError(f"{type(self).__name__} takes no steps")

    def add(self, steps: Transition) -> None:
        """Stores a `Transition` of [time, env, ...] tensors and adds its steps to the count."""
        self.write(steps)
        self.count_added(steps.reward.numel())

    def write(self, steps: Transition) -> None:
        """Stores a `Transition` of [time, env, ...] tensors without counting its steps.

        Raises a TypeError if no steps can be added to the store (default).
        """
        raise TypeError(f"{type(self).__name__} takes no steps")

    def count_added(self, num_steps: int) -> None:
        """Adds `num_steps`, those of all environments together, to the count of steps; does nothing by default."""

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Makes `add` call `recorder(f)` instead of `f`, the function that does its tensor operations.

        `recorder` returns a function of the same arguments, e.g. one that replays a CUDA graph. Does nothing by
        default.
        """

    @abstractmethod
    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[StorageT, Metrics]:
        """Returns the stored tensors, for `gather`, and metrics to log; called once per iteration.

        `run` is a compiled version of `algorithm.prepare` to call in its place, if the store calls it (None: not
        compiled).
        """

    @abstractmethod
    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields one iterator per epoch of a pass, which yields the argument `draw` of `gather` for every batch.

        A replay has one epoch.
        """

    @abstractmethod
    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        """Returns the number of batches of a pass, over all its epochs, in one iteration.

        `num_samples` counts the steps that the iteration collects in all environments together.
        """

    @abstractmethod
    def gather(self, storage: StorageT, draw: Tensor) -> BatchT:
        """Returns the batch that `draw`, one tensor from `draws`, selects from `storage`, the result of `prepare`.

        Must be pure tensor code, because it is compiled together with the update.
        """

    def feedback(self, storage: StorageT, batch: BatchT, rows: Rows) -> None:
        """Stores numbers that the update computed for each row of `batch`, e.g. priorities; does nothing by default.

        `rows` holds them by name, one number per row. Must be tensor code, because it is compiled with the update.
        """

    def describe(self, batch: BatchT, rows: Rows) -> Metrics:
        """Returns metrics of a batch for the log, besides the algorithm's own; {} by default.

        `rows` holds numbers that the update computed for each row of the batch, by name. Must be tensor code, because
        it is compiled together with the update.
        """
        return {}

    def settle(self, algorithm: Algorithm) -> None:
        """Ends an iteration: updates the algorithm's running observation statistics and drops steps that are used up.

        Does nothing by default.
        """

    def count_learned(self, passes: Sequence[Pass]) -> None:
        """Counts the rows that the batches of these passes took in one iteration; does nothing by default."""

    def carry(self) -> tuple:
        """Returns the tensors that `write` replaces by new ones instead of changing them in place; () by default.

        A CUDA graph of an iteration hands them to the next one with `set_carry`.
        """
        return ()

    def set_carry(self, carry: tuple) -> None:
        """Sets the tensors that `write` replaces to a result of `carry`; does nothing by default."""

    @abstractmethod
    def cut(self, envs: Tensor | None = None) -> None:
        """Marks the last stored step of every running episode as its end; later steps start new episodes.

        `envs` is a mask [num_envs], True for the environments to cut; None cuts all of them.
        """

    def sample(self, num: int) -> BatchT | None:
        """Returns a batch of `num` random stored rows for diagnostics.

        Returns None (default) if the store has no rows, or drops them after every iteration.
        """
        return None

    def health(self) -> dict[str, float]:
        """Returns numbers about the state of the store, by name, to log at evaluation time; {} by default."""
        return {}

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> None: ...


class SampledExperience(Experience[StorageT, StepBatch]):
    """Base of stores whose batches are random rows, selected by uniform numbers drawn on the store's device."""

    columns: StorageT  # that `sample` takes rows from

    def __init__(self, device: torch.device | str, sequences: Sequences | None, *generators: torch.Generator) -> None:
        super().__init__(device, *generators)
        self.sequences = sequences  # what is drawn; None: single rows
        self.drawn = 0  # rows so far

    @property
    def rows_each(self) -> int:
        """Returns the number of rows that one random number selects: 1, or the length of a sequence."""
        return 1 if self.sequences is None else self.sequences.length

    def draw(self, batch_size: int) -> Tensor:
        """Draws random numbers in [0, 1) that select a batch of `batch_size` rows: one per row, or per sequence."""
        return self.numbers(batch_size // self.rows_each, self.generators[0])

    def numbers(self, num: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.rand(num, generator=generator, dtype=torch.float64, device=self.device)

    def sample(self, num: int) -> StepBatch | None:
        return self.gather(self.columns, self.numbers(max(1, num // self.rows_each)))

    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        """Adds the rows of `num_batches` batches to the count of drawn rows."""
        self.drawn += num_batches * batch_size

    def count_learned(self, passes: Sequence[Pass]) -> None:
        for a_pass in passes:
            self.count_drawn(a_pass.rounds, drawn_rows(a_pass))

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return a_pass.rounds

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        yield (self.draw(drawn_rows(a_pass)) for _ in range(a_pass.rounds))


def drawn_rows(a_pass: Pass) -> int:
    """Returns `a_pass.batch_size`; raises a TypeError if it is None."""
    if a_pass.batch_size is None:
        raise TypeError("a pass over what is drawn needs a batch_size")
    return a_pass.batch_size
