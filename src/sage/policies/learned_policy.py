"""What all learned policies share: scores of the models they know, a pool that may have changed, and a confidence."""

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
    """Where a policy comes from: all that a report, or a refusal, must name."""

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
    """The first choice of every row."""

    column: np.ndarray  # int64 [n] into the pool
    own: np.ndarray  # int64 [n] into the policy's models
    known: np.ndarray  # bool [n]: False where no eligible model has data


@dataclass(eq=False, kw_only=True)
class LearnedPolicy(ABC):
    """Chooses the eligible model with the highest score; models without data have none, and are never chosen."""

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
        """[n, self.models]; minus infinity where there are no data."""

    @abstractmethod
    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        """[n] calibrated chance that the model `own` [n] is at least as good as the incumbent."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint stores, beside `options`."""

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What the arrays must look like."""

    @abstractmethod
    def options(self) -> dict:
        """The plain values of a checkpoint."""

    def choose(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> Choice:
        own_of_column = own_columns(self.models, models)
        scores = np.full((len(eligible), len(models)), -np.inf)
        here = own_of_column >= 0
        scores[:, here] = self.scores(contexts)[:, own_of_column[here]]
        scores = np.where(eligible, scores, -np.inf)
        column = scores.argmax(axis=1) if len(models) else np.zeros(len(eligible), np.int64)
        known = scores[np.arange(len(scores)), column] > -np.inf
        return Choice(column, np.where(known, own_of_column[column], 0), known)

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """All on the first choice; where no eligible model has data, equal chances (and the confidence is 0)."""
        choice = self.choose(with_categories(self.categorizer, contexts), models, eligible)
        certain = np.zeros(eligible.shape)
        certain[np.arange(len(certain)), choice.column] = 1.0
        return np.where(choice.known[:, None], certain, eligible / eligible.sum(axis=1, keepdims=True))

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        contexts = with_categories(self.categorizer, contexts)
        choice = self.choose(contexts, models, eligible)
        return np.where(choice.known, self.chances(contexts, choice.own), 0.0)


@lru_cache(maxsize=256)
def own_columns(own: tuple[str, ...], pool: tuple[str, ...]) -> np.ndarray:
    """For every model of the pool its place among the policy's own, or -1 for a new model."""
    place = {model: index for index, model in enumerate(own)}
    return np.array([place.get(model, -1) for model in pool], np.int64)


def hash_tasks(task_ids: np.ndarray) -> np.ndarray:
    """uint64, sorted, one per different task: enough to keep a policy from being judged on what it has seen."""
    return np.array(sorted({hash_task(task) for task in task_ids.tolist()}), np.uint64)


def was_seen(task_ids: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """bool [n]: rows of tasks that are among the hashes."""
    distinct, row = np.unique(task_ids, return_inverse=True)
    seen = np.isin(np.array([hash_task(task) for task in distinct.tolist()], np.uint64), hashes)
    return seen[row]


def hash_task(task: str) -> int:
    return int.from_bytes(hashlib.blake2b(task.encode(), digest_size=8).digest(), "little")
