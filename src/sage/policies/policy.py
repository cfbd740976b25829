"""The contract of a routing policy: contexts in, probabilities over models and a confidence out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Contexts(NamedTuple):
    """The inputs of a policy, one row per decision; `task_id` serves to split rows by task and influences no choice."""

    role: np.ndarray  # text [n]
    category: np.ndarray  # text [n]; '' where unknown
    features: np.ndarray  # float32 [n, features.NAMES]
    task_id: np.ndarray  # text [n]: for splitting by task, never an input
    text: np.ndarray | None = None  # objects [n]: the task's text, or the hashed words that a log kept of it

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the four arrays that every row has (role, category, features, task_id), without the texts."""
        return self.role, self.category, self.features, self.task_id


class RoutingPolicy(Protocol):
    """A policy that chooses a model for each request; the pool of models may differ from the one it was learned on."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns float64 [n, models]: the probability that each model of the pool `models` is chosen.

        Rows add up to 1 and are 0 where `eligible` (bool [n, models]) is False.
        """
        ...

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n] in 0..1: the calibrated chance that the first choice is at least as good as the incumbent's.

        The incumbent is usually the static table. Policies without doubt (the static table, bandits) return ones.
        """
        ...


def select_rows(contexts: Contexts, rows: np.ndarray) -> Contexts:
    """Returns the contexts of the given rows (indices or a mask), texts included."""
    text = None if contexts.text is None else contexts.text[rows]
    return Contexts(*(column[rows] for column in contexts.columns), text=text)


def object_array(values: Sequence[object]) -> np.ndarray:
    """Returns `values` as a one-dimensional object array, also if they are arrays, which NumPy would stack."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def with_exploration(probabilities: np.ndarray, eligible: np.ndarray, exploration: float) -> np.ndarray:
    """Mixes probabilities [n, models] with even chances of all models that are True in `eligible`.

    The even part has the weight `exploration` (0 to 1), the given probabilities the rest.
    """
    evenly = eligible / eligible.sum(axis=1, keepdims=True)
    return (1 - exploration) * probabilities + exploration * evenly
