"""What the loop asks of a store of experience."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor

from rl_training.core import Algorithm, Batch, Metrics, Transition


class Experience(ABC):
    """Takes steps, and hands out what to learn from as one storage plus rows to take from it.

    The split lets the runtime gather and learn in one compiled step.
    """

    @property
    @abstractmethod
    def wanted_steps(self) -> int:
        """How many steps of every environment are missing before it can be learned from."""

    @abstractmethod
    def add(self, steps: Transition) -> None:
        """Takes [time, env] steps."""

    @abstractmethod
    def prepare(self, algorithm: Algorithm) -> tuple[Batch, Metrics]:
        """Returns the storage that `rows` index, once per iteration."""

    @abstractmethod
    def rows(self, algorithm: Algorithm) -> Iterator[Iterator[Tensor]]:
        """Yields the index tensors of every epoch of an iteration."""

    @abstractmethod
    def finish(self, algorithm: Algorithm) -> None:
        """Ends the iteration: statistics are folded in, what is used up is dropped."""

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> None: ...
