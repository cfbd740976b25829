"""The tasks of logged rows: rows with the same caller's id, or the same first words of a user, are one task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sage.evidence.cascades.cascade_records import CascadeEpisode
from sage.log.records import Decision
from sage.policies.learned_policy import hash_tasks, was_seen

Key = tuple[int, str]  # its kind, and the text; of the keys of a task, the smallest names it
GIVEN, OPENING, OWN, KEPT = range(4)
LARGE = 0.1  # share of the rows from which on a single task is worth a word


@dataclass(frozen=True, kw_only=True)
class TaskKeys:
    """The keys by which the task of each row is known."""

    given: np.ndarray  # text [n]: the caller's id; '' where there is none
    opening: np.ndarray  # text [n]: the keyed hash of tenant and first words; '' where it is not known
    own: np.ndarray  # text [n]: the id of the decision or episode

    def select(self, rows: np.ndarray) -> TaskKeys:
        return TaskKeys(given=self.given[rows], opening=self.opening[rows], own=self.own[rows])

    @property
    def names(self) -> np.ndarray:
        """Returns text: all keys by which the tasks of these rows can be found again in other files."""
        return np.concatenate(
            [self.given[self.given != ""], self.opening[self.opening != ""], self.own[self.given == ""]]
        )

    @property
    def served(self) -> np.ndarray:
        """text [n]: the id under which a cascade policy decided the row: the caller's, or that of the episode."""
        return np.where(self.given == "", self.own, self.given)

    def seen(self, label: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Returns bool [n]: the rows of tasks (named by `label` [n]) of which any row has a key among `hashes`."""
        found = was_seen(label, hashes) | was_seen(self.served, hashes)
        found |= (self.opening != "") & was_seen(self.opening, hashes)
        return np.isin(label, label[found])

    @property
    def told_apart(self) -> dict[str, int]:
        """Returns the number of rows by the kind of key that tells their task from others."""
        by_id, by_words = self.given != "", (self.given == "") & (self.opening != "")
        counts = {"id": by_id, "first words": by_words, "what the log kept of the text": ~by_id & ~by_words}
        return {name: int(rows.sum()) for name, rows in counts.items() if rows.any()}


@dataclass(frozen=True, kw_only=True)
class TaskBasis:
    """The number of tasks that a proof rests on, the rows of the largest one, and the keys by which tasks are known."""

    tasks: int
    largest: int  # rows of the largest one
    told_apart: dict[str, int]  # by what -> rows

    def __str__(self) -> str:
        told = " and ".join(f"by {name} in {rows:,} rows" for name, rows in self.told_apart.items())
        large = self.largest >= LARGE * sum(self.told_apart.values())
        return f"{self.tasks:,} tasks, told apart {told}{f'; {self.largest:,} rows are of one task' if large else ''}"


def basis_of(label: np.ndarray, keys: TaskKeys | None) -> TaskBasis:
    """Returns the counts for tasks named by `label` [n]; without keys, callers' ids name them."""
    _, sizes = np.unique(label, return_counts=True)
    told = {"id": len(label)} if keys is None else keys.told_apart
    return TaskBasis(tasks=len(sizes), largest=int(sizes.max()), told_apart=told)


def task_hashes(label: np.ndarray, keys: TaskKeys | None) -> np.ndarray:
    """Returns the sorted hashes (uint64) by which a policy remembers the tasks that it was learned from.

    `label` [n] names the task of each row; without keys, it is all that identifies a task.
    """
    return hash_tasks(label if keys is None else np.concatenate([label, keys.names]))


def tasks_seen(label: np.ndarray, keys: TaskKeys | None, hashes: np.ndarray) -> np.ndarray:
    """Returns bool [n]: the rows of tasks that a policy with these `hashes` was learned from."""
    return was_seen(label, hashes) if keys is None else keys.seen(label, hashes)


def label_tasks(keys: TaskKeys, kept: Sequence[str]) -> np.ndarray:
    """Returns text [n]: a name for the task of each row.

    `kept` holds a digest for each row, which names the task where there is neither a caller's id nor first words.
    """
    own = [
        [(GIVEN, given)] * bool(given) + [(OPENING, opening)] * bool(opening) or [(OWN, name), (KEPT, digest)]
        for given, opening, name, digest in zip(
            keys.given.tolist(), keys.opening.tolist(), keys.own.tolist(), kept, strict=True
        )
    ]
    return np.array(connected(own), np.str_)


def connected(rows: Sequence[Sequence[Key]]) -> list[str]:
    """Returns, for each row, the text of the smallest key among all rows that are connected with it by shared keys."""
    parent: dict[Key, Key] = {}

    def smallest(key: Key) -> Key:
        while (above := parent.setdefault(key, key)) != key:
            parent[key] = parent[above]
            key = above
        return key

    for keys in rows:
        for key in keys[1:]:
            low, high = sorted((smallest(keys[0]), smallest(key)))
            parent[high] = low
    return [smallest(keys[0])[1] for keys in rows]


def text_digest(record: Decision | CascadeEpisode) -> str:
    """Returns a hash of all that a record holds about a call's text.

    Records with equal hashes may be copies of one call, and nothing shows that they are not. The hash is compared only,
    never written.
    """
    said = [record.tenant, record.role, record.category, record.features]
    said += [record.prompt, record.words] if isinstance(record, Decision) else []
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def keys_of(rows: Iterable[tuple[str, str, str]]) -> TaskKeys:
    """Returns the keys of rows that are given as (caller's id, hash of the first words, own id)."""
    given, opening, own = zip(*rows, strict=True)
    return TaskKeys(given=np.array(given, np.str_), opening=np.array(opening, np.str_), own=np.array(own, np.str_))
