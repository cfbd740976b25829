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
from rl_training.core.arguments import (
    COUNT,
    NATURAL,
    SEED,
    SHARE,
    as_python,
    checked_path,
    instance_of,
    real_number,
    row_numbers,
    shown,
    whole_number,
)
from rl_training.core.free_memory import check_memory
from rl_training.core.schedule import Range
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
from rl_training.data.files import keeps_successors, read_table, write_table
from rl_training.data.joining import join, own_last_observations, pick_episodes
from rl_training.data.metadata import Metadata, Provenance, Table
from rl_training.data.reference_scores import ReferenceScore
from rl_training.data.spec_source import SpecSource, spec_from
from rl_training.data.statistics import Statistics, measure
from rl_training.data.values import check_values, content_hash, finite_columns, is_mapped
from rl_training.functional import n_step_return


class Dataset:
    """A dataset of logged steps in the order of their episodes, one row each; actions are in the environment's units.

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
        """Stores columns that fit the spec, without a check; use `from_arrays` for arrays that may not."""
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
        spec: SpecSource | None = None,
        provenance: Provenance | None = None,
        reference: ReferenceScore | None = None,
        check: bool = True,
    ) -> Dataset:
        """Builds a dataset from arrays of one row per step; without a spec the spaces are guessed from them.

        Raises a DatasetError if arrays do not fit together, or, unless `check` is False or they are mapped files, if no
        algorithm could learn from their numbers (NaN, choices that do not exist). `spec` may be a `Spec`, a pair of
        gymnasium spaces (observation, action), an environment or its id, a function that builds one, or an agent; the
        same in `open` and `replace`.
        """
        extras = instance_of({} if extras is None else extras, dict, "extras", "give one array per name, {'cost': ...}")
        columns = Columns(obs, action, reward, terminated, truncated, next_obs, last_obs, log_prob, extras)
        metadata = Metadata(spec_from(spec), *described(provenance or Provenance(), reference))
        dataset = cls.from_table(Table(flatten(columns), metadata))
        if checked_flag(check) and not any(map(is_mapped, finite_columns(dataset.columns).values())):
            check_values(dataset.columns, dataset.spec)
        return dataset

    @classmethod
    def open(cls, path: str | Path, *, spec: SpecSource | None = None, check: bool = True) -> Dataset:
        """Opens a dataset in a file or folder; `spec`, in any form that `from_arrays` takes, replaces its spaces.

        Raises a DatasetError if it cannot be used, or, unless `check` is False, if no algorithm could learn from its
        numbers (NaN, choices that do not exist). A folder of columns is mapped into memory and its numbers are not
        read: use `verify`.
        """
        place, check = checked_path(path, "path"), checked_flag(check)
        try:
            spec = spec_from(spec)
            table = read_table(place)
            if table.metadata.spec is None:
                table = table._replace(metadata=dataclasses.replace(table.metadata, spec=spec))
            dataset = cls.from_table(table)
            if spec not in (None, dataset.spec):
                dataset = dataset.replace(spec=spec)
            dataset.path = place
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
        """Writes the dataset to `path`, complete or not at all, in place of a file or dataset that is there already.

        The suffix decides the format: .npz, .hdf5, .parquet, .jsonl, .minari, or a folder of columns if there is none.
        Raises a DatasetError if it cannot be written.
        """
        path = checked_path(path, "path")
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
        """Returns the sha256 (hex) of the columns as they are now, the same in all file formats; reads all of them."""
        return content_hash(flatten(self.columns))

    @property
    def identity(self) -> str:
        """Returns the sha256 that identifies the dataset: the one recorded in its file, else that of its columns."""
        return self.recorded_sha256 or self.sha256

    def verify(self) -> None:
        """Raises a DatasetError if the columns do not match the sha256 in their file, if it has one.

        Reads all of them.
        """
        if self.recorded_sha256 is not None and self.recorded_sha256 != self.sha256:
            raise DatasetError("the columns do not match their sha256: they were damaged or edited; get the file again")

    def replace(
        self,
        *,
        spec: SpecSource | None = None,
        provenance: Provenance | None = None,
        reference: ReferenceScore | None = None,
    ) -> Dataset:
        """Returns a dataset of the same columns with another spec, provenance or reference; None keeps the present one.

        Raises a DatasetError if the columns do not fit the spec.
        """
        spec, (provenance, reference) = spec_from(spec), described(provenance or self.provenance, reference)
        columns = self.columns if spec is None else check_columns(self.columns, spec)
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
        """Returns the first row and the row after the last of every episode, as `Episodes(start, stop)`."""
        return self.found_episodes

    @cached_property
    def returns(self) -> np.ndarray:
        """Returns the undiscounted sum of rewards of every episode, float64 [episodes]."""
        return np.add.reduceat(self.reward, self.episodes().start, dtype=np.float64)

    def return_to_go(self, gamma: float = 1.0) -> np.ndarray:
        """Returns for every row the discounted rewards up to the end of its episode, even if cut, float64 [rows]."""
        return discounted_sums(self.reward, self.episodes(), real_number(gamma, "gamma", SHARE))

    def next_action(self) -> NextAction:
        """Returns every row's next action in its episode (its own in the last), and a mask of rows that have one."""
        last = self.episodes().stop - 1
        known = np.ones(len(self), bool)
        known[last] = False
        rows = np.arange(len(self)) + known
        return NextAction(self.action[rows], known)

    def n_step(self, n: int, gamma: float, rows: np.ndarray | None = None) -> NStep:
        """Returns the n-step returns of the given rows (None: all rows), which stop at the end of the episode.

        They are an `NStep` of arrays [rows]: the discounted reward over up to `n` steps, the discount of the value
        after them (0 where the episode terminated), and the last row that was added.
        """
        n, gamma = whole_number(n, "n", COUNT), real_number(gamma, "gamma", SHARE)
        n = min(n, int(self.episodes().length.max()))  # no sum goes beyond its episode
        chosen = np.arange(len(self)) if rows is None else self.row_numbers(rows)
        columns = (self.reward.copy(), row_flags(self.terminated, self.episodes()), chosen)
        reward, flags, start = (torch.from_numpy(column) for column in columns)
        walk = n_step_return(reward, flags, start, lambda row: row + 1, n=n, gamma=gamma)
        return NStep(walk.reward.numpy(), walk.discount.numpy(), walk.last.numpy())

    def successors(self, rows: np.ndarray) -> Arrays:
        """Returns the observation after each of `rows`, [len(rows), ...]: an array, or a dict of arrays.

        Raises a ValueError if a row is out of range.
        """
        rows = self.row_numbers(rows)
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
        """Returns the rows with the numbers `rows`, or where a mask is True, as a `Transition` of tensors [num, ...].

        `log_prob` is NaN where unknown. Raises a ValueError for rows out of range.
        """
        rows = self.row_numbers(rows)
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
        """Draws `num` rows uniformly, with replacement, and returns them as a `Transition` of tensors [num, ...]."""
        rng = instance_of(rng, np.random.Generator, "rng", "give numpy.random.default_rng(0)")
        num = whole_number(num, "num", NATURAL)
        check_memory(num * (2 * self.row_bytes + 16), f"num={num}")  # with row numbers, and while columns are copied
        return self.take(rng.integers(0, len(self), num))

    def row_numbers(self, rows: object) -> np.ndarray:
        """Returns row numbers, or the rows where a mask is True, as an array; raises a ValueError if out of range."""
        return row_numbers(rows, "rows", len(self), "rows")

    @property
    def row_bytes(self) -> int:
        """Returns the bytes that one row takes as tensors, with the observation after it."""
        flat = flatten(self.columns)
        size = sum(column.nbytes for name, column in flat.items() if not name.startswith("last_obs"))
        following = 0 if self.next_obs is not None else sum(leaf.nbytes for leaf in leaves("obs", self.obs).values())
        return (size + following) // len(self)

    def select(self, index: np.ndarray) -> Dataset:
        """Returns an in-memory dataset of the episodes with the numbers `index`, in this order.

        `index` may also be a mask of all episodes. Raises a DatasetError if no episode is selected.
        """
        chosen = row_numbers(index, "index", len(self.returns), "episodes")
        if not len(chosen):
            raise DatasetError(f"index={shown(index)} selects no episode: a dataset needs at least one")
        columns = pick_episodes(self.columns, self.episodes(), chosen)
        return Dataset(columns, self.spec, self.provenance, self.reference)

    def top(self, fraction: float) -> Dataset:
        """Returns the share `fraction` of episodes with the highest returns, at least one, in their original order."""
        fraction = real_number(fraction, "fraction", Range(above=0, max=1))
        num = max(1, math.ceil(fraction * len(self.returns) - 1e-9))
        return self.select(np.sort(np.argsort(-self.returns, kind="stable")[:num]))

    def split(self, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
        """Splits the episodes at random into two in-memory datasets; the first gets the share `fraction` of them.

        Each gets at least one. Raises a ValueError if there are fewer than two, or `fraction` is not between 0 and 1.
        """
        total, fraction = len(self.returns), real_number(fraction, "fraction")
        if not 0.0 < fraction < 1.0 or total < 2:
            raise ValueError(
                f"fraction={fraction} of {total} episodes: a split needs a share between 0 and 1 and at least two episodes"
            )
        order = np.random.default_rng(whole_number(seed, "seed", SEED)).permutation(total)
        num = min(max(round(fraction * total), 1), total - 1)
        return self.select(np.sort(order[:num])), self.select(np.sort(order[num:]))

    def compact(self) -> Dataset:
        """Returns the same steps with every observation stored once, in `obs` and `last_obs` instead of `next_obs`.

        Raises a DatasetError if the `next_obs` of a row within an episode is not the `obs` of the following row.
        """
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
        """Returns `Statistics` of the rows, episodes, rewards, actions and observations; reads all of them."""
        return measure(self)

    def normalized_score(self, score: float | None = None) -> float:
        """Returns `score` (None: the mean return) on the scale where the reference returns are 0 and 100.

        Raises a ValueError if the dataset has no reference returns.
        """
        if self.reference is None:
            raise ValueError(
                "no reference scores are known: set them with replace(reference=ReferenceScore(low, high))"
            )
        return self.reference.normalize(float(self.returns.mean()) if score is None else real_number(score, "score"))

    @staticmethod
    def concatenate(datasets: Sequence[Dataset]) -> Dataset:
        """Joins datasets in order into one in-memory dataset.

        Raises a DatasetError if their spaces or extra columns differ. A reference score is kept only if all have the
        same.
        """
        columns, spec, provenance = join(datasets)
        references = {d.reference for d in datasets}
        return Dataset(columns, spec, provenance, references.pop() if len(references) == 1 else None)


def described(provenance: Provenance, reference: ReferenceScore | None) -> tuple[Provenance, ReferenceScore | None]:
    """Returns both arguments unchanged; raises a ValueError if one has the wrong type."""
    instance_of(provenance, Provenance, "provenance", "give rl_training.data.Provenance(env_id=...)")
    if reference is not None:
        instance_of(reference, ReferenceScore, "reference", "give rl_training.data.ReferenceScore(minimum, maximum)")
    return provenance, reference


def tensors(tree: Arrays) -> Tree:
    return tree_map(lambda leaf: owned(torch.from_numpy(leaf)), tree)  # pyrefly: ignore (arrays in, tensors out)


def checked_flag(check: object) -> bool:
    return instance_of(as_python(check), bool, "check", "use True or False")
