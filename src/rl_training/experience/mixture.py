"""Two sources in every batch: logged steps and the agent's own, by a fixed share or by how many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.core import Algorithm, Metrics, Pass, Rows, StepBatch, Transition, tree_map
from rl_training.experience.base import Prepare, SampledExperience
from rl_training.experience.logged import LoggedColumns, LoggedSteps
from rl_training.experience.replay import Replay
from rl_training.experience.ring import RingColumns
from rl_training.functional import weighted_mean


class Sources(NamedTuple):
    logged: LoggedColumns
    own: RingColumns


class Mixture(SampledExperience[Sources]):
    """A store whose batches mix rows of a dataset, the share `ratio` in front, with rows of a replay."""

    why_not_recorded = "the steps are not kept on the device alone"

    def __init__(self, replay: Replay, logged: LoggedSteps, ratio: float) -> None:
        super().__init__(replay.device, replay.sequences, *logged.generators, *replay.generators)
        self.replay, self.logged, self.ratio = replay, logged, ratio
        self.rewards, self.notice = replay.rewards, replay.notice

    @property
    def wanted_steps(self) -> int:
        return self.replay.wanted_steps

    @property
    def warming_up(self) -> bool:
        return self.replay.warming_up

    def steps_between(self, num_envs: int) -> int:
        return self.replay.steps_between(num_envs)

    def add(self, steps: Transition) -> None:
        self.replay.add(steps)

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        self.replay.record(recorder)

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[Sources, Metrics]:
        return Sources(self.logged.prepare(algorithm)[0], self.replay.prepare(algorithm)[0]), {}

    def num_logged(self, batch_size: int) -> int:
        """Returns the number of dataset rows in a batch of `batch_size` rows; a multiple of a sequence's length."""
        return round(self.ratio * (batch_size // self.rows_each)) * self.rows_each

    def draw(self, batch_size: int) -> Tensor:
        num = self.num_logged(batch_size)
        return torch.cat([self.logged.draw(num), self.replay.draw(batch_size - num)])

    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        num = self.num_logged(batch_size)
        self.logged.count_drawn(num_batches, num)
        self.replay.count_drawn(num_batches, batch_size - num)

    def gather(self, storage: Sources, draw: Tensor) -> StepBatch:
        num = self.num_logged(len(draw) * self.rows_each) // self.rows_each
        sides = self.logged.gather(storage.logged, draw[:num]), self.replay.gather(storage.own, draw[num:])
        across = 0 if self.sequences is None else 1
        batch: StepBatch = tree_map(lambda a, b: torch.cat([a, b], across), *sides)
        logged = (torch.arange(len(draw), device=draw.device) < num).to(batch.weight.dtype)
        return batch._replace(columns=batch.columns | {"logged": logged.expand_as(batch.weight)})

    def describe(self, batch: StepBatch, rows: Rows) -> Metrics:
        """Returns the mean reward and TD error of a batch's dataset rows and own rows, and the share of dataset rows.

        TD errors are left out unless `rows`, the update's numbers for each row, has them as `priority`.
        """
        logged = batch.columns["logged"]
        sides = {"logged": logged * batch.weight, "own": (1 - logged) * batch.weight}
        columns = {"reward": batch.reward} | ({"td_error": rows["priority"]} if "priority" in rows else {})
        metrics = {
            f"{name}_{side}": weighted_mean(column.detach(), weight)
            for name, column in columns.items()
            for side, weight in sides.items()
        }
        return metrics | {"offline_batch_ratio": logged.mean()}

    def settle(self, algorithm: Algorithm) -> None:
        self.replay.settle(algorithm)

    def count_learned(self, passes: Sequence[Pass]) -> None:
        super().count_learned(passes)
        self.replay.count_learned(())

    def cut(self, envs: Tensor | None = None) -> None:
        self.replay.cut(envs)

    def sample(self, num: int) -> StepBatch | None:
        return self.replay.sample(num)

    def health(self) -> dict[str, float]:
        return self.replay.health() | self.logged.health()

    def state_dict(self) -> dict:
        return self.replay.state_dict()  # the data's own state is the trainer's: it serves offline updates too

    def load_state_dict(self, state: dict) -> None:
        self.replay.load_state_dict(state)


class Pool(Mixture):
    """A mixture of a dataset and a replay in which all rows are equally likely."""

    def __init__(self, replay: Replay, logged: LoggedSteps) -> None:
        super().__init__(replay, logged, 1.0)

    def num_logged(self, batch_size: int) -> int:
        """Returns the expected number of dataset rows in a batch of `batch_size` rows."""
        num, own = self.logged.num_rows, min(self.replay.added, self.replay.reach * self.replay.num_envs)
        return round(num / (num + own) * batch_size)

    def draw(self, batch_size: int) -> Tensor:
        return self.replay.draw(batch_size)

    def gather(self, storage: Sources, draw: Tensor) -> StepBatch:
        num, own = self.logged.num_rows, storage.own.written.clamp(max=self.replay.reach).sum()
        place = draw * (num + own)
        from_data = place < num
        logged = self.logged.gather(storage.logged, torch.where(from_data, place / num, 0.0))
        other = self.replay.gather(storage.own, torch.where(from_data, 0.0, (place - num) / own))
        across = 0 if self.sequences is None else 1

        def choose(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(from_data.view(*[1] * across, -1, *[1] * (a.ndim - across - 1)), a, b)

        batch: StepBatch = tree_map(choose, logged, other)
        share = from_data.to(batch.weight.dtype).expand_as(batch.weight)
        return batch._replace(columns=batch.columns | {"logged": share})
