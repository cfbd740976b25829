"""A dataset: logged steps with their spaces and their origin, in memory or mapped from disk."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from rl_training.core import Spec, Transition, Tree, owned, tree_map
from rl_training.data.columns import (
    Arrays,
    Columns,
    DatasetError,
    Flat,
    check_columns,
    flatten,
    infer_spec,
    leaves,
    map_arrays,
    unflatten,
)
from rl_training.data.episodes import Episodes, NextAction, NStep, discounted_sums, find_episodes, row_flags
from rl_training.data.files import expand_home, keeps_successors, read_table, write_table
from rl_training.data.joining import join, own_last_observations, pick_episodes
from rl_training.data.metadata import Metadata, Provenance, Table
from rl_training.data.reference_scores import ReferenceScore
from rl_training.data.statistics import Statistics, measure
from rl_training.data.values import check_values, content_hash
from rl_training.functional import n_step_return


class Dataset:
    """Steps in the order of their episodes, one row each; actions are in the environment's units.

    The successor of a row is stored (`next_obs`), or it is the following row, and for the last row of an episode the
    episode's `last_obs`.
    """

    def __init__(
        self,
        columns: Columns,
        spec: Spec,
        provenance: Provenance | None = None,
        reference: ReferenceScore | None = None,
        recorded_sha256: str | None = None,
        path: Path | None = None,
    ) -> None:
        """Takes columns that fit the spec; `from_arrays` makes them fit."""
        self.path = path  # where it was opened
        self.columns, self.spec, self.reference = columns, spec, reference
        self.recorded_sha256 = recorded_sha256  # what the file says; see `verify`
        self.provenance = provenance or Provenance()
        self.obs, self.action, self.reward, self.terminated, self.truncated = columns[:5]
        self.next_obs, self.last_obs, self.log_prob, self.extras = columns[5:]

    @classmethod
    def from_arrays(
        cls,
        *,
        obs: Arrays,
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        next_obs: Arrays | None = None,
        last_obs: Arrays | None = None,
        log_prob: np.ndarray | None = None,
        extras: Flat | None = None,
        spec: Spec | None = None,
        provenance: Provenance | None = None,
        reference: ReferenceScore | None = None,
    ) -> Dataset:
        """Makes a dataset of arrays; without a spec the spaces are guessed from them."""
        columns = Columns(obs, action, reward, terminated, truncated, next_obs, last_obs, log_prob, extras or {})
        metadata = Metadata(spec, provenance or Provenance(), reference)
        return cls.from_table(Table(flatten(columns), metadata))

    @classmethod
    def open(cls, path: str | Path, *, spec: Spec | None = None, check: bool = True) -> Dataset:
        """Opens a file or folder; what kind it is follows from its suffix and content.

        A file whose numbers no algorithm could learn from is refused, unless `check` is False. A folder of columns is
        mapped into memory and not looked at: use `verify` and `lint`.
        """
        if not isinstance(path, str | Path) or not str(path):
            raise DatasetError(f"path={path!r} is not a path: name a file or folder")
        try:
            path = expand_home(path)
            table = read_table(path)
            if table.metadata.spec is None:
                table = table._replace(metadata=dataclasses.replace(table.metadata, spec=spec))
            dataset = cls.from_table(table)
            if spec not in (None, dataset.spec):
                dataset = dataset.replace(spec=spec)
            dataset.path = path
            if check and not table.mapped:
                check_values(dataset.columns, dataset.spec)
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from error
        return dataset

    @classmethod
    def from_table(cls, table: Table) -> Dataset:
        raw, metadata = unflatten(table.columns), table.metadata
        spec, provenance = metadata.spec, metadata.provenance
        if spec is None:
            spec = infer_spec(raw.obs, raw.action)
            provenance = dataclasses.replace(provenance, spec_inferred=True)
        columns = check_columns(raw, spec)
        if columns.next_obs is None and columns.last_obs is None:
            columns = columns._replace(last_obs=own_last_observations(columns))
        dataset = cls(columns, spec, provenance, metadata.reference, metadata.sha256)
        metadata.check_rows(len(dataset))
        if not table.mapped:
            dataset.episodes()
            dataset.verify()
        return dataset

    def save(self, path: str | Path) -> None:
        """Writes the dataset, complete or not at all: .npz, .hdf5, .parquet, .jsonl, .minari, or a folder of columns."""
        path = expand_home(path)
        whole = keeps_successors(path)
        stored = self if whole else self.compact().select(np.arange(len(self.returns)))  # which marks an open end
        write_table(path, Table(flatten(stored.columns), stored.metadata))

    @property
    def metadata(self) -> Metadata:
        dtypes: dict[str, str] = {name: column.dtype.name for name, column in flatten(self.columns).items()}
        return Metadata(self.spec, self.provenance, self.reference, len(self), self.sha256, dtypes)

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def sha256(self) -> str:
        """Of the columns as they are now, whatever file they are in; reads all of them."""
        return content_hash(flatten(self.columns))

    @property
    def identity(self) -> str:
        """What tells it from other datasets: the sha256 that its file recorded, else that of its columns."""
        return self.recorded_sha256 or self.sha256

    def verify(self) -> None:
        """Refuses columns that are not those whose sha256 the file recorded; reads all of them."""
        if self.recorded_sha256 is not None and self.recorded_sha256 != self.sha256:
            raise DatasetError("the columns do not match their sha256: they were damaged or edited; get the file again")

    def replace(
        self, *, spec: Spec | None = None, provenance: Provenance | None = None, reference: ReferenceScore | None = None
    ) -> Dataset:
        """The same columns, described otherwise."""
        columns = self.columns if spec is None else check_columns(self.columns, spec)
        provenance = provenance or self.provenance
        if spec is not None:
            provenance = dataclasses.replace(provenance, spec_inferred=False)
        return Dataset(columns, spec or self.spec, provenance, reference or self.reference)

    @cached_property
    def found_episodes(self) -> Episodes:
        episodes = find_episodes(self.terminated, self.truncated)
        for name, leaf in leaves("last_obs", self.last_obs).items():
            if len(leaf) != len(episodes.stop):
                raise DatasetError(
                    f"{name} has {len(leaf)} rows for {len(episodes.stop)} episodes: give one row per episode, or next_obs"
                )
        return episodes

    def episodes(self) -> Episodes:
        """Where episodes start and stop."""
        return self.found_episodes

    @cached_property
    def returns(self) -> np.ndarray:
        """The sum of rewards of every episode."""
        return np.add.reduceat(self.reward, self.episodes().start, dtype=np.float64)

    def return_to_go(self, gamma: float = 1.0) -> np.ndarray:
        """For every row the discounted rewards from there to the end of its episode, without a value beyond a cut."""
        return discounted_sums(self.reward, self.episodes(), gamma)

    def next_action(self) -> NextAction:
        """The action of the following step of the same episode, and whether there is one."""
        last = self.episodes().stop - 1
        known = np.ones(len(self), bool)
        known[last] = False
        rows = np.arange(len(self)) + known
        return NextAction(self.action[rows], known)

    def n_step(self, n: int, gamma: float, rows: np.ndarray | None = None) -> NStep:
        """Returns over up to `n` steps from the given rows, or from all."""
        if n < 1:
            raise ValueError(f"n={n}: sum over at least one step")
        chosen = np.arange(len(self)) if rows is None else np.array(rows)
        columns = (self.reward.copy(), row_flags(self.terminated, self.episodes()), chosen)
        reward, flags, start = (torch.from_numpy(column) for column in columns)
        walk = n_step_return(reward, flags, start, lambda row: row + 1, n=n, gamma=gamma)
        return NStep(walk.reward.numpy(), walk.discount.numpy(), walk.last.numpy())

    def successors(self, rows: np.ndarray) -> Arrays:
        """The observation after each of the rows."""
        if self.next_obs is not None:
            return map_arrays(lambda column: column[rows], self.next_obs)
        assert self.last_obs is not None
        episodes = self.episodes()
        index = episodes.index_of(rows)
        ending = rows + 1 == episodes.stop[index]

        def pick(column: np.ndarray, last: np.ndarray) -> np.ndarray:
            following = column[np.minimum(rows + 1, len(column) - 1)]
            following[ending] = last[index[ending]]
            return following

        return map_arrays(pick, self.obs, self.last_obs)

    def take(self, rows: np.ndarray) -> Transition:
        """The given rows as tensors."""
        rows = np.asarray(rows)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a dataset of {len(self)}")
        log_prob = np.full(len(rows), np.nan, np.float32) if self.log_prob is None else self.log_prob[rows]
        return Transition(
            obs=tensors(map_arrays(lambda column: column[rows], self.obs)),
            action=torch.from_numpy(self.action[rows]),
            log_prob=torch.from_numpy(log_prob),
            reward=torch.from_numpy(self.reward[rows]),
            next_obs=tensors(self.successors(rows)),
            terminated=torch.from_numpy(self.terminated[rows]),
            truncated=torch.from_numpy(self.truncated[rows]),
            valid=torch.ones(len(rows), dtype=torch.bool),
            columns={name: torch.from_numpy(extra[rows]) for name, extra in self.extras.items()},
        )

    def sample(self, rng: np.random.Generator, num: int) -> Transition:
        """Rows drawn uniformly, with replacement."""
        return self.take(rng.integers(0, len(self), num))

    def select(self, index: np.ndarray) -> Dataset:
        """Some episodes, by number, in memory."""
        columns = pick_episodes(self.columns, self.episodes(), np.asarray(index))
        return Dataset(columns, self.spec, self.provenance, self.reference)

    def top(self, fraction: float) -> Dataset:
        """The episodes with the highest returns: so large a share of all, at least one, in their order."""
        if not 0.0 < fraction <= 1.0:
            raise ValueError(f"fraction={fraction}: choose a share above 0, at most 1")
        num = max(1, math.ceil(fraction * len(self.returns) - 1e-9))
        return self.select(np.sort(np.argsort(-self.returns, kind="stable")[:num]))

    def split(self, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
        """Two datasets of whole episodes, drawn at random; the first gets so large a share of them."""
        total = len(self.returns)
        if not 0.0 < fraction < 1.0 or total < 2:
            raise ValueError(
                f"fraction={fraction} of {total} episodes: a split needs a share between 0 and 1 and at least two episodes"
            )
        order = np.random.default_rng(seed).permutation(total)
        num = min(max(round(fraction * total), 1), total - 1)
        return self.select(np.sort(order[:num])), self.select(np.sort(order[num:]))

    def compact(self) -> Dataset:
        """The same steps with every observation stored once, if successors follow each other."""
        if self.next_obs is None:
            return self
        stop = self.episodes().stop
        inner = np.setdiff1d(np.arange(len(self)), stop - 1, assume_unique=True)
        here = leaves("next_obs", self.obs)
        for name, after in leaves("next_obs", self.next_obs).items():
            differs = (after[inner] != here[name][inner + 1]).reshape(len(inner), -1).any(1)
            if differs.any():
                raise DatasetError(
                    f"{name} of row {inner[differs][0]} is not the following observation: keep a format that stores successors"
                )
        last = map_arrays(lambda column: column[stop - 1], self.next_obs)
        return Dataset(self.columns._replace(next_obs=None, last_obs=last), self.spec, self.provenance, self.reference)

    def statistics(self) -> Statistics:
        """The dataset in numbers."""
        return measure(self)

    def normalized_score(self, score: float | None = None) -> float:
        """A return, or the mean return of the episodes, on the scale where the references are 0 and 100."""
        if self.reference is None:
            raise ValueError(
                "no reference scores are known: set them with replace(reference=ReferenceScore(low, high))"
            )
        return self.reference.normalize(float(self.returns.mean()) if score is None else score)

    @staticmethod
    def concatenate(datasets: Sequence[Dataset]) -> Dataset:
        """All episodes of some datasets of the same spaces, in memory."""
        columns, spec, provenance = join(datasets)
        references = {d.reference for d in datasets}
        return Dataset(columns, spec, provenance, references.pop() if len(references) == 1 else None)


def tensors(tree: Arrays) -> Tree:
    return tree_map(lambda leaf: owned(torch.from_numpy(leaf)), tree)  # pyrefly: ignore (arrays in, tensors out)
