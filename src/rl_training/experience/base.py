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
    """A store that takes steps and gives batches to learn from, as one storage plus draws from it.

    The split lets the runtime gather and learn in one compiled step. Methods on tensors (`write`, `prepare`,
    `gather`, `settle`) and counting on the host (`count_added`, `count_learned`) are separate, so that the first can
    be recorded.
    """

    on_policy: ClassVar[bool] = False  # True: acted and learned from with the same numbers, all of it, then dropped
    rewards: RewardUnits = RAW  # that are learned in
    why_not_recorded: str | None = None  # as part of a CUDA graph with the steps that are added; None: it can be

    def __init__(self, device: torch.device | str, *generators: torch.Generator) -> None:
        self.device = torch.device(device)  # where the storage is
        self.generators = generators  # what draws take their numbers from

    @property
    @abstractmethod
    def wanted_steps(self) -> int:
        """Returns how many steps of every environment are missing before it can be learned from."""

    @property
    def warming_up(self) -> bool:
        """Says if the next actions are to be random."""
        return False

    def steps_between(self, num_envs: int) -> int:
        """Returns the steps of every environment from one iteration to the next, once there is enough to learn from."""
        raise TypeError(f"{type(self).__name__} takes no steps")

    def add(self, steps: Transition) -> None:
        """Takes [time, env] steps."""
        self.write(steps)
        self.count_added(steps.reward.numel())

    def write(self, steps: Transition) -> None:
        """Stores [time, env] steps."""
        raise TypeError(f"{type(self).__name__} takes no steps")

    def count_added(self, num_steps: int) -> None:
        """Counts steps that were written."""

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Lets the runtime replace the tensor operations of `add` by a recording, if the store supports it."""

    @abstractmethod
    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[StorageT, Metrics]:
        """Returns the storage that is drawn from, once per iteration; `run` stands for `algorithm.prepare`, compiled."""

    @abstractmethod
    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields the draws of every epoch of a pass, of a replay all at once; see `gather`."""

    @abstractmethod
    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        """Returns the number of batches of a pass, if an iteration collects `num_samples` steps."""

    @abstractmethod
    def gather(self, storage: StorageT, draw: Tensor) -> BatchT:
        """Returns the batch for a draw from the storage: pure tensor code, compiled together with the update."""

    def feedback(self, storage: StorageT, batch: BatchT, rows: Rows) -> None:
        """Takes the update's outputs for its batch's rows, such as priorities; tensor code, compiled with it."""

    def describe(self, batch: BatchT, rows: Rows) -> Metrics:
        """Returns metrics of a batch to log besides the algorithm's own; compiled with the update."""
        return {}

    def settle(self, algorithm: Algorithm) -> None:
        """Ends the iteration: updates running statistics and drops used steps."""

    def count_learned(self, passes: Sequence[Pass]) -> None:
        """Counts an iteration that went through these passes."""

    def carry(self) -> tuple:
        """Returns the tensors that `write` replaces instead of changing in place, for the next recorded iteration."""
        return ()

    def set_carry(self, carry: tuple) -> None:
        """Continues from tensors that `carry` returned."""

    @abstractmethod
    def cut(self, envs: Tensor | None = None) -> None:
        """Ends open episodes at their last steps, in all environments or those marked; later steps start new ones."""

    def sample(self, num: int) -> BatchT | None:
        """Returns a batch of `num` stored rows for diagnostics; None if nothing outlives an iteration."""
        return None

    def health(self) -> dict[str, float]:
        """Returns numbers about the state of the store, to log at evaluation time."""
        return {}

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> None: ...


class SampledExperience(Experience[StorageT, StepBatch]):
    """A store from which every batch is drawn by new random numbers, made on the storage's device."""

    columns: StorageT  # that `sample` takes rows from

    def __init__(self, device: torch.device | str, sequences: Sequences | None, *generators: torch.Generator) -> None:
        super().__init__(device, *generators)
        self.sequences = sequences  # what is drawn; None: single rows
        self.drawn = 0  # rows so far

    @property
    def rows_each(self) -> int:
        """Returns the number of rows per draw: 1, or the length of a sequence."""
        return 1 if self.sequences is None else self.sequences.length

    def draw(self, batch_size: int) -> Tensor:
        """Draws random numbers in [0, 1), one per row or piece of a batch; `gather` turns them into rows."""
        return self.numbers(batch_size // self.rows_each, self.generators[0])

    def numbers(self, num: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.rand(num, generator=generator, dtype=torch.float64, device=self.device)

    def sample(self, num: int) -> StepBatch | None:
        return self.gather(self.columns, self.numbers(max(1, num // self.rows_each)))

    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        """Counts rows that were drawn."""
        self.drawn += num_batches * batch_size

    def count_learned(self, passes: Sequence[Pass]) -> None:
        for a_pass in passes:
            self.count_drawn(a_pass.rounds, drawn_rows(a_pass))

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return a_pass.rounds

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        yield (self.draw(drawn_rows(a_pass)) for _ in range(a_pass.rounds))


def drawn_rows(a_pass: Pass) -> int:
    """Returns the batch size of a pass; raises if it has none."""
    if a_pass.batch_size is None:
        raise TypeError("a pass over what is drawn needs a batch_size")
    return a_pass.batch_size
