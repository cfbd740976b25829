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
    """Base of stores that take steps and give batches to learn from, as one storage plus draws from it.

    The split lets the runtime gather and learn in one compiled step. Methods on tensors (`write`, `prepare`, `gather`,
    `settle`) and counting on the host (`count_added`, `count_learned`) are separate, so that the first can be recorded.
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
        """Returns the number of steps that every environment has yet to take before the store can be learned from."""

    @property
    def warming_up(self) -> bool:
        """Returns True if the next actions are to be random; False by default."""
        return False

    def steps_between(self, num_envs: int) -> int:
        """Returns the steps that every environment takes per iteration, once there is enough to learn from.

        Raises a TypeError if the store takes no steps.
        """
        raise TypeError(f"{type(self).__name__} takes no steps")

    def add(self, steps: Transition) -> None:
        """Stores [time, env] steps and counts them."""
        self.write(steps)
        self.count_added(steps.reward.numel())

    def write(self, steps: Transition) -> None:
        """Stores [time, env] steps without counting them; raises a TypeError if the store takes no steps."""
        raise TypeError(f"{type(self).__name__} takes no steps")

    def count_added(self, num_steps: int) -> None:
        """Adds to the count of stored steps, of all environments together; does nothing by default."""

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Replaces the tensor operations of `add` by `recorder(operations)`, e.g. a CUDA graph.

        Does nothing by default.
        """

    @abstractmethod
    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[StorageT, Metrics]:
        """Returns the storage that `gather` draws from, and metrics; called once per iteration.

        `run` replaces `algorithm.prepare` by a compiled version of it; None: call it as it is.
        """

    @abstractmethod
    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        """Yields for every epoch of a pass an iterator of draws, one per batch, for `gather`.

        A replay has one epoch.
        """

    @abstractmethod
    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        """Returns the number of batches of a pass in an iteration that collects `num_samples` steps."""

    @abstractmethod
    def gather(self, storage: StorageT, draw: Tensor) -> BatchT:
        """Returns the batch for a draw from the storage; pure tensor code, compiled together with the update."""

    def feedback(self, storage: StorageT, batch: BatchT, rows: Rows) -> None:
        """Stores the update's outputs for the rows of its batch, such as new priorities; does nothing by default.

        Must be tensor code, because it is compiled together with the update.
        """

    def describe(self, batch: BatchT, rows: Rows) -> Metrics:
        """Returns metrics of a batch for the log, besides the algorithm's own; {} by default.

        `rows` are the update's outputs for the rows of the batch. Must be tensor code, because it is compiled together
        with the update.
        """
        return {}

    def settle(self, algorithm: Algorithm) -> None:
        """Ends an iteration: updates the algorithm's running statistics and drops steps that are used up.

        Does nothing by default.
        """

    def count_learned(self, passes: Sequence[Pass]) -> None:
        """Counts an iteration that went through these passes; does nothing by default."""

    def carry(self) -> tuple:
        """Returns the tensors that `write` replaces instead of changing in place, for the next recorded iteration.

        Returns () by default.
        """
        return ()

    def set_carry(self, carry: tuple) -> None:
        """Sets the tensors that `write` works on to ones that `carry` returned earlier; does nothing by default."""

    @abstractmethod
    def cut(self, envs: Tensor | None = None) -> None:
        """Ends open episodes at their last stored steps; later steps start new ones.

        `envs` is a mask [num_envs], True for the environments to cut; None cuts all of them.
        """

    def sample(self, num: int) -> BatchT | None:
        """Returns a batch of `num` random stored rows for diagnostics.

        Returns None if the store has no rows, or none that outlive an iteration.
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
    """Base of stores whose batches are drawn by new random numbers, made on the storage's device."""

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
        """Draws random numbers in [0, 1) for `gather`, one per row or sequence of a batch of `batch_size` rows."""
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
    """Returns the batch size of a pass; raises a TypeError if it has none."""
    if a_pass.batch_size is None:
        raise TypeError("a pass over what is drawn needs a batch_size")
    return a_pass.batch_size
