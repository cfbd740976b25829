"""The tasks of logged rows: rows that share a caller's id, or a user's first words, are one task whatever else they say."""

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
    """The keys that tell the task of each row apart from others."""

    given: np.ndarray  # text [n]: the caller's id; '' where there is none
    opening: np.ndarray  # text [n]: the keyed hash of tenant and first words; '' where it is not known
    own: np.ndarray  # text [n]: the id of the decision or episode

    def select(self, rows: np.ndarray) -> TaskKeys:
        return TaskKeys(given=self.given[rows], opening=self.opening[rows], own=self.own[rows])

    @property
    def names(self) -> np.ndarray:
        """text: all by which the tasks can be found again in other files."""
        return np.concatenate(
            [self.given[self.given != ""], self.opening[self.opening != ""], self.own[self.given == ""]]
        )

    def seen(self, label: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """bool [n]: rows of tasks (named by `label` [n]) of which a row has a key among the hashes."""
        found = was_seen(label, hashes) | was_seen(np.where(self.given == "", self.own, self.given), hashes)
        found |= (self.opening != "") & was_seen(self.opening, hashes)
        return np.isin(label, label[found])

    @property
    def told_apart(self) -> dict[str, int]:
        """Counts the rows by what told their tasks apart."""
        by_id, by_words = self.given != "", (self.given == "") & (self.opening != "")
        counts = {"id": by_id, "first words": by_words, "what the log kept of the text": ~by_id & ~by_words}
        return {name: int(rows.sum()) for name, rows in counts.items() if rows.any()}


@dataclass(frozen=True, kw_only=True)
class TaskBasis:
    """The tasks that a proof rests on."""

    tasks: int
    largest: int  # rows of the largest one
    told_apart: dict[str, int]  # by what -> rows

    def __str__(self) -> str:
        told = " and ".join(f"by {name} in {rows:,} rows" for name, rows in self.told_apart.items())
        large = self.largest >= LARGE * sum(self.told_apart.values())
        return f"{self.tasks:,} tasks, told apart {told}{f'; {self.largest:,} rows are of one task' if large else ''}"


def basis_of(label: np.ndarray, keys: TaskKeys | None) -> TaskBasis:
    _, sizes = np.unique(label, return_counts=True)
    told = {"id": len(label)} if keys is None else keys.told_apart
    return TaskBasis(tasks=len(sizes), largest=int(sizes.max()), told_apart=told)


def task_hashes(label: np.ndarray, keys: TaskKeys | None) -> np.ndarray:
    """Returns the hashes by which a policy remembers the tasks that it was learned from."""
    return hash_tasks(label if keys is None else np.concatenate([label, keys.names]))


def tasks_seen(label: np.ndarray, keys: TaskKeys | None, hashes: np.ndarray) -> np.ndarray:
    """bool [n]: rows of tasks that a policy was learned from."""
    return was_seen(label, hashes) if keys is None else keys.seen(label, hashes)


def label_tasks(keys: TaskKeys, kept: Sequence[str]) -> np.ndarray:
    """text [n]: a name for the task of each row. `kept`: hashes that stand in for rows with neither id nor opening."""
    own = [
        [(GIVEN, given)] * bool(given) + [(OPENING, opening)] * bool(opening) or [(OWN, name), (KEPT, digest)]
        for given, opening, name, digest in zip(
            keys.given.tolist(), keys.opening.tolist(), keys.own.tolist(), kept, strict=True
        )
    ]
    return np.array(connected(own), np.str_)


def connected(rows: Sequence[Sequence[Key]]) -> list[str]:
    """Returns for each row the smallest key among all rows that are connected with it."""
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
    """A hash of all that a record says of a call's text: equal ones may be copies, and nothing shows that they are not. It is
    compared, and written nowhere."""
    said = [record.tenant, record.role, record.category, record.features]
    said += [record.prompt, record.words] if isinstance(record, Decision) else []
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def keys_of(rows: Iterable[tuple[str, str, str]]) -> TaskKeys:
    """From (given id, opening, own id) of each row."""
    given, opening, own = zip(*rows, strict=True)
    return TaskKeys(given=np.array(given, np.str_), opening=np.array(opening, np.str_), own=np.array(own, np.str_))
