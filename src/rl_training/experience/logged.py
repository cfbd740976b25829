"""Experience from a dataset: its steps, drawn uniformly, with n-step returns computed when drawn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import index
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import ActionConverter, Algorithm, Column, Metrics, StepBatch, Tree, tree_leaves, tree_map
from rl_training.data import Dataset
from rl_training.data.episodes import row_flags
from rl_training.experience.base import Prepare, SampledExperience
from rl_training.experience.declared_columns import LOG_PROB, NEXT_ACTION, columns_of
from rl_training.experience.reward_units import RAW, RewardUnits
from rl_training.experience.sequences import Sequences
from rl_training.functional import ENDED, n_step_return

CHUNK = 65_536  # rows looked at together when statistics are taken


class LoggedColumns(NamedTuple):
    """The columns of a dataset; on the CPU they are views of its own arrays, so that a mapped file stays on disk."""

    obs: Tree
    action: Tensor  # in the environment's units
    reward: Tensor
    flags: Tensor
    after: Tree  # the successor of every row, or the last observation of every episode
    stops: Tensor  # where episodes end; empty if nobody asks for a row's episode
    starts: Tensor
    declared: dict[str, Tensor]  # what the algorithm needs besides


class LoggedSteps(SampledExperience[LoggedColumns]):
    """A store that draws random batches from a dataset without end; no steps can be added to it."""

    why_not_recorded = "a dataset takes no steps"

    def __init__(
        self,
        dataset: Dataset,
        convert: ActionConverter,
        *,
        gamma: float,
        seed: int,
        n_steps: int = 1,
        columns: Sequence[Column] = (),
        sequences: Sequences | None = None,
        rewards: RewardUnits = RAW,
        device: torch.device | str = "cpu",
    ) -> None:
        self.order = torch.Generator(device).manual_seed(seed)
        super().__init__(device, sequences, self.order)
        self.rewards, dataset = rewards, rewards.of(dataset)
        self.dataset, self.gamma, self.num_rows = dataset, gamma, len(dataset)
        self.n_steps = min(n_steps, int(dataset.episodes().length.max()))  # no sum goes beyond its episode
        self.convert = convert
        self.declared = {column.name: column for column in columns}
        self.columns = self.load_columns(dataset)
        self.observed = False

    def load_columns(self, dataset: Dataset) -> LoggedColumns:
        """Returns what training reads of the dataset, on the store's device; of its extras only the declared columns.

        On the CPU, arrays of the dataset are shared, not copied; sets `stores_next`.
        """
        episodes = dataset.episodes()
        self.stores_next = stored = dataset.next_obs is not None
        declared = columns_of(dataset, list(self.declared.values()), self.gamma)
        indexed = slice(None) if self.sequences or not stored else slice(0)
        columns = LoggedColumns(
            tree_map(view, dataset.obs),  # pyrefly: ignore (of arrays come tensors)
            view(dataset.action),
            view(dataset.reward),
            torch.from_numpy(row_flags(dataset.terminated, episodes)),
            tree_map(view, dataset.next_obs if stored else dataset.last_obs),  # pyrefly: ignore (as above)
            torch.from_numpy(episodes.stop[indexed]),
            torch.from_numpy(episodes.start[indexed]),
            {name: view(column) for name, column in declared.items()},
        )
        return tree_map(lambda column: column.to(self.device), columns)

    @property
    def wanted_steps(self) -> int:
        return 0

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[LoggedColumns, Metrics]:
        if algorithm.observes and not self.observed:
            device = algorithm.policy.device
            for start in range(0, self.num_rows, CHUNK):
                obs = tree_map(lambda column, s=start: column[s : s + CHUNK].to(device), self.columns.obs)
                algorithm.observe(obs, torch.ones(len(next(tree_leaves(obs))), dtype=torch.bool, device=device))
            self.observed = True
        return self.columns, {}

    def gather(self, storage: LoggedColumns, draw: Tensor) -> StepBatch:
        row = (draw * self.num_rows).long()
        if self.sequences is None:
            return self.take(storage, row)
        episode = torch.searchsorted(storage.stops, row, right=True)
        age = row - storage.starts[episode]
        layout = self.sequences.lay_out(age, age)
        inside = layout.offset < storage.stops[episode] - row
        return layout.finish(self.take(storage, torch.where(inside, row + layout.offset, row).flatten()), inside)

    def take(self, storage: LoggedColumns, row: Tensor) -> StepBatch:
        """Returns a batch of the rows with the indices `row` [rows]; n-step returns stop at the end of the episode."""
        walk = n_step_return(storage.reward, storage.flags, row, lambda row: row + 1, n=self.n_steps, gamma=self.gamma)
        ending = walk.flags & ENDED != 0
        columns = {name: column[row].to(self.declared[name].dtype) for name, column in storage.declared.items()}
        weight = torch.ones_like(walk.reward)
        action = self.convert.inverse(storage.action[row])
        if LOG_PROB in columns:
            columns[LOG_PROB] = columns[LOG_PROB] + self.convert.log_volume(action)
        if NEXT_ACTION in self.declared:  # of a cut episode nobody knows it, and such a row is not learned from
            columns[NEXT_ACTION] = self.convert.inverse(storage.action[torch.where(ending, row, walk.last + 1)])
            weight = weight * (~ending | (walk.discount == 0))
        return StepBatch(
            tree_map(lambda column: column[row], storage.obs),
            action,
            walk.reward,
            walk.discount,
            self.successor(storage, walk.last, ending),
            weight,
            columns,
        )

    def successor(self, storage: LoggedColumns, row: Tensor, ending: Tensor) -> Tree:
        if self.stores_next:  # not the array itself, which the compiler would look at and, if it is read-only, refuse
            return tree_map(lambda column: column[row], storage.after)
        following = (row + 1).clamp(max=self.num_rows - 1)
        episode = torch.searchsorted(storage.stops, row, right=True)

        def pick(column: Tensor, last: Tensor) -> Tensor:
            return torch.where(ending.view(-1, *[1] * (column.ndim - 1)), last[episode], column[following])

        return tree_map(pick, storage.obs, storage.after)

    def cut(self, envs: Tensor | None = None) -> None:
        """Does nothing: a dataset has no open episodes."""

    def health(self) -> dict[str, float]:
        return {"data_reuse": self.drawn / self.num_rows}

    def state_dict(self) -> dict:
        return {"order": self.order.get_state(), "counts": [self.drawn, int(self.observed), self.num_rows]}

    def load_state_dict(self, state: dict) -> None:
        self.drawn, observed, num_rows = map(index, state["counts"])
        if num_rows != self.num_rows:
            raise ValueError(
                f"the run learned from a dataset of {num_rows:,} rows, and this one has {self.num_rows:,}: go on with the same"
            )
        self.observed = bool(observed)
        self.order.set_state(state["order"])


def view(array: np.ndarray) -> Tensor:
    """Returns a tensor that shares the array's memory, which may be read-only: do not write to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # and nobody writes
        return torch.from_numpy(array)
