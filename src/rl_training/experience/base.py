"""What the loop asks of a store of experience."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor

from rl_training.core import Algorithm, Batch, Metrics, Pass, Transition, tree_map


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
    def rows(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields the index tensors of every epoch of a pass; see `gather`."""

    @abstractmethod
    def finish(self, algorithm: Algorithm) -> None:
        """Ends the iteration: statistics are folded in, what is used up is dropped."""

    @abstractmethod
    def cut(self) -> None:
        """Ends every open episode at the last step: what is added next does not follow from it."""

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> None: ...


def gather(storage: Batch, index: Tensor) -> Batch:
    """Takes rows from a storage: [batch], or [time, sequence], where -1 is padding and gets weight 0."""
    if index.ndim == 1:
        return tree_map(lambda column: column[index], storage)
    batch = tree_map(lambda column: column[index.clamp(min=0)], storage)
    return batch._replace(weight=batch.weight * (index >= 0))
