"""What the loop asks of a store of experience."""

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
    """Takes steps, and hands out what to learn from as one storage plus draws from it.

    The split lets the runtime gather and learn in one compiled step. What is done to tensors (`write`, `prepare`,
    `gather`, `settle`) and what is counted on the host (`count_added`, `count_learned`) are apart, so that the first can
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
        """How many steps of every environment are missing before it can be learned from."""

    @property
    def warming_up(self) -> bool:
        """Whether the next steps are to be taken at random."""
        return False

    def steps_between(self, num_envs: int) -> int:
        """Steps of every environment from one iteration to the next, once there is enough to learn from."""
        raise TypeError(f"{type(self).__name__} takes no steps")

    def add(self, steps: Transition) -> None:
        """Takes [time, env] steps."""
        self.write(steps)
        self.count_added(steps.reward.numel())

    def write(self, steps: Transition) -> None:
        """Stores [time, env] steps."""
        raise TypeError(f"{type(self).__name__} takes no steps")

    def count_added(self, num_steps: int) -> None:
        """Keeps the books of what is written."""

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Lets the runtime put a recording in the place of what `add` does on a device, where that can be recorded."""

    @abstractmethod
    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[StorageT, Metrics]:
        """Returns the storage that is drawn from, once per iteration; `run` stands for `algorithm.prepare`, compiled."""

    @abstractmethod
    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields the draws of every epoch of a pass, of a replay all at once; see `gather`."""

    @abstractmethod
    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        """How many draws that is, where an iteration collects so many steps."""

    @abstractmethod
    def gather(self, storage: StorageT, draw: Tensor) -> BatchT:
        """Takes what was drawn from the storage: pure tensor code, compiled together with the update."""

    def feedback(self, storage: StorageT, batch: BatchT, rows: Rows) -> None:
        """Takes what the update said of the rows of its batch; pure tensor code, compiled with the update."""

    def describe(self, batch: BatchT, rows: Rows) -> Metrics:
        """What is worth logging of a batch besides what the algorithm says of it; compiled with the update."""
        return {}

    def settle(self, algorithm: Algorithm) -> None:
        """Ends the iteration: statistics are folded in, what is used up is dropped."""

    def count_learned(self, passes: Sequence[Pass]) -> None:
        """Keeps the books of an iteration that went through these passes."""

    def carry(self) -> tuple:
        """The tensors that `write` replaces instead of writing to them: what one recorded iteration leaves to the next."""
        return ()

    def set_carry(self, carry: tuple) -> None:
        """Goes on from such tensors."""

    @abstractmethod
    def cut(self, envs: Tensor | None = None) -> None:
        """Ends open episodes at their last steps, of all environments or of those marked: what comes next does not follow."""

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


class SampledExperience(Experience[StorageT, StepBatch]):
    """A store that every batch is drawn from anew, by random numbers that are made where the storage is."""

    columns: StorageT  # that `sample` takes rows from

    def __init__(self, device: torch.device | str, sequences: Sequences | None, *generators: torch.Generator) -> None:
        super().__init__(device, *generators)
        self.sequences = sequences  # what is drawn; None: single rows
        self.drawn = 0  # rows so far

    @property
    def rows_each(self) -> int:
        """Rows to learn from in each of what is drawn."""
        return 1 if self.sequences is None else self.sequences.length

    def draw(self, batch_size: int) -> Tensor:
        """Random numbers in [0, 1), one per row or piece of a batch; `gather` turns them into rows."""
        return self.numbers(batch_size // self.rows_each, self.generators[0])

    def numbers(self, num: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.rand(num, generator=generator, dtype=torch.float64, device=self.device)

    def sample(self, num: int) -> StepBatch | None:
        return self.gather(self.columns, self.numbers(max(1, num // self.rows_each)))

    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        """Keeps the books of what is drawn."""
        self.drawn += num_batches * batch_size

    def count_learned(self, passes: Sequence[Pass]) -> None:
        for a_pass in passes:
            self.count_drawn(a_pass.rounds, drawn_rows(a_pass))

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return a_pass.rounds

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        yield (self.draw(drawn_rows(a_pass)) for _ in range(a_pass.rounds))


def drawn_rows(a_pass: Pass) -> int:
    """The size of a batch that is drawn."""
    if a_pass.batch_size is None:
        raise TypeError("a pass over what is drawn needs a batch_size")
    return a_pass.batch_size
