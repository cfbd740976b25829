"""What the loop asks of a store of experience."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor

from rl_training.core import Algorithm, BatchT, Metrics, Pass, Rows, StepBatch, Transition

StorageT = TypeVar("StorageT")


class Experience(ABC, Generic[StorageT, BatchT]):
    """Takes steps, and hands out what to learn from as one storage plus draws from it.

    The split lets the runtime gather and learn in one compiled step.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)  # where the storage is

    @property
    @abstractmethod
    def wanted_steps(self) -> int:
        """How many steps of every environment are missing before it can be learned from."""

    @property
    def warming_up(self) -> bool:
        """Whether the next steps are to be taken at random."""
        return False

    @abstractmethod
    def add(self, steps: Transition) -> None:
        """Takes [time, env] steps."""

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Lets the runtime put a recording in the place of what `add` does on a device, where that can be recorded."""

    @abstractmethod
    def prepare(self, algorithm: Algorithm) -> tuple[StorageT, Metrics]:
        """Returns the storage that `rows` draw from, once per iteration."""

    @abstractmethod
    def rows(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields the draws of every epoch of a pass, of a replay all at once; see `gather`."""

    @abstractmethod
    def gather(self, storage: StorageT, draw: Tensor) -> BatchT:
        """Takes what was drawn from the storage: pure tensor code, compiled together with the update."""

    def feedback(self, storage: StorageT, batch: BatchT, rows: Rows) -> None:
        """Takes what the update said of the rows of its batch; pure tensor code, compiled with the update."""

    def describe(self, batch: BatchT, rows: Rows) -> Metrics:
        """What is worth logging of a batch besides what the algorithm says of it; compiled with the update."""
        return {}

    @abstractmethod
    def finish(self, algorithm: Algorithm) -> None:
        """Ends the iteration: statistics are folded in, what is used up is dropped."""

    @abstractmethod
    def cut(self) -> None:
        """Ends every open episode at the last step: what is added next does not follow from it."""

    def sample(self, num: int) -> BatchT | None:
        """Some of what is stored, to look at; None where nothing outlives an iteration."""
        return None

    def health(self) -> dict[str, float]:
        """What is worth knowing of the store, at evaluation time."""
        return {}

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> None: ...


class Drawn(Experience[StorageT, StepBatch]):
    """A store that every batch is drawn from anew, by random numbers that are made where the storage is."""

    @property
    @abstractmethod
    def generators(self) -> tuple[torch.Generator, ...]:
        """What `draw` takes its numbers from."""

    @abstractmethod
    def draw(self, batch_size: int) -> Tensor:
        """Random numbers in [0, 1), one per row of a batch; `gather` turns them into rows."""

    @abstractmethod
    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        """Keeps the books of what is drawn."""

    def rows(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        assert a_pass.batch_size is not None
        self.count_drawn(a_pass.epochs, a_pass.batch_size)
        yield from self.draws(a_pass)

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """The same without counting, for a caller that does."""
        assert a_pass.batch_size is not None
        yield (self.draw(a_pass.batch_size) for _ in range(a_pass.epochs))
