"""The base of all learned policies: scores of known models, choices from a changed pool, and a confidence."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from sage.policies.policy import Contexts
from sage.policies.text.categories import Categorizer, with_categories


@dataclass(frozen=True)
class Training:
    """The origin of a policy: learner, data, reward, seed, settings, calibration, and hashes of the training tasks."""

    learner: str
    data_sha256: str
    data_source: str
    reward_version: str
    features_version: int
    num_rows: int
    seed: int = 0
    against: str = "the most likely model of the log"  # whose choices the gains are relative to
    settings: dict[str, float | int | str] = field(default_factory=dict)
    calibration: dict = field(default_factory=dict)  # reliability, as `calibration.reliability` gives it
    task_hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))  # of all rows it has seen


class Choice(NamedTuple):
    """The first choice of every row, as a column of the pool and of the policy's own models."""

    column: np.ndarray  # int64 [n] into the pool
    own: np.ndarray  # int64 [n] into the policy's models
    known: np.ndarray  # bool [n]: False where no eligible model has data


@dataclass(eq=False, kw_only=True)
class LearnedPolicy(ABC):
    """A policy that takes the eligible model with the highest score; models without data have none and are never taken.

    Raises ValueError when it is made with an array of the wrong shape.
    """

    kind: ClassVar[str]
    name: str
    models: tuple[str, ...]
    training: Training
    categorizer: Categorizer | None = None  # fills in categories that callers do not give
    version: str = field(init=False)  # changes with anything that the choices depend on

    def __post_init__(self) -> None:
        arrays = self.arrays()
        for name, shape in self.shapes().items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} has shape {arrays[name].shape} where the policy needs {shape}")
        digest = hashlib.sha256(json.dumps([self.kind, self.models, self.options()], sort_keys=True).encode())
        for name, values in sorted(arrays.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        if self.categorizer is not None:
            digest.update(json.dumps(self.categorizer.options()).encode())
            for name, values in sorted(self.categorizer.model.arrays().items()):
                digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        self.version = digest.hexdigest()[:12]

    @abstractmethod
    def scores(self, contexts: Contexts) -> np.ndarray:
        """Returns [n, self.models]: the score of every model; minus infinity where there are no data."""

    @abstractmethod
    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        """Returns [n]: the calibrated chance that the model `own` (int [n]) is at least as good as the incumbent."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays that a checkpoint stores, by name."""

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes that arrays must have, by name of the array."""

    @abstractmethod
    def options(self) -> dict:
        """Returns the plain values that a checkpoint stores beside the arrays, ready for JSON."""

    def choose(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> Choice:
        """Returns the first choice of every row among the pool's models that are True in `eligible` [n, models]."""
        own_of_column = own_columns(self.models, models)
        scores = np.full((len(eligible), len(models)), -np.inf)
        here = own_of_column >= 0
        scores[:, here] = self.scores(contexts)[:, own_of_column[here]]
        scores = np.where(eligible, scores, -np.inf)
        column = scores.argmax(axis=1) if len(models) else np.zeros(len(eligible), np.int64)
        known = scores[np.arange(len(scores)), column] > -np.inf
        return Choice(column, np.where(known, own_of_column[column], 0), known)

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n, models] with all probability on the first choice.

        Rows in which no eligible model has data get equal chances; their confidence is 0.
        """
        choice = self.choose(with_categories(self.categorizer, contexts), models, eligible)
        certain = np.zeros(eligible.shape)
        certain[np.arange(len(certain)), choice.column] = 1.0
        if choice.known.all():
            return certain
        return np.where(choice.known[:, None], certain, eligible / eligible.sum(axis=1, keepdims=True))

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n]: the calibrated chance that the first choice is as good as the incumbent.

        It is 0 if no eligible model has data.
        """
        contexts = with_categories(self.categorizer, contexts)
        choice = self.choose(contexts, models, eligible)
        return np.where(choice.known, self.chances(contexts, choice.own), 0.0)


@lru_cache(maxsize=256)
def own_columns(own: tuple[str, ...], pool: tuple[str, ...]) -> np.ndarray:
    """Returns int64 [pool]: each pool model's position among the policy's own models, or -1 for a new one."""
    place = {model: index for index, model in enumerate(own)}
    return np.array([place.get(model, -1) for model in pool], np.int64)


def hash_tasks(task_ids: np.ndarray) -> np.ndarray:
    """Returns the sorted hashes (uint64) of the different task ids in `task_ids` [n].

    A policy keeps them so that it is not evaluated on tasks that it was learned from.
    """
    return np.array(sorted({hash_task(task) for task in task_ids.tolist()}), np.uint64)


def was_seen(task_ids: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Returns bool [n]: the rows whose task id has its hash among `hashes`."""
    distinct, row = np.unique(task_ids, return_inverse=True)
    seen = np.isin(np.array([hash_task(task) for task in distinct.tolist()], np.uint64), hashes)
    return seen[row]


def hash_task(task: str) -> int:
    """Returns a task id's 64-bit hash, the same in every process."""
    return int.from_bytes(hashlib.blake2b(task.encode(), digest_size=8).digest(), "little")
