"""What a routing policy is: probabilities over models for a batch of contexts, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Contexts(NamedTuple):
    """What a policy may look at, one row per decision."""

    role: np.ndarray  # text [n]
    category: np.ndarray  # text [n]; '' where unknown
    features: np.ndarray  # float32 [n, features.NAMES]
    task_id: np.ndarray  # text [n]: for splitting by task, never an input
    text: np.ndarray | None = None  # objects [n]: the task's text, or the hashed words that a log kept of it

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What every row has: all but the text."""
        return self.role, self.category, self.features, self.task_id


class RoutingPolicy(Protocol):
    """Chooses among a pool of models that may have grown or shrunk since it was learned."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """[n, models] float64; rows add up to 1 and are 0 where not `eligible` (bool [n, models])."""
        ...

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """[n] in 0..1: a calibrated chance that the policy's first choice is at least as good as the static table's.

        Policies that are always sure (static table, bandits) return ones.
        """
        ...


def select_rows(contexts: Contexts, rows: np.ndarray) -> Contexts:
    text = None if contexts.text is None else contexts.text[rows]
    return Contexts(*(column[rows] for column in contexts.columns), text=text)


def object_array(values: Sequence[object]) -> np.ndarray:
    """object [n], also of arrays, which NumPy would join."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def with_exploration(probabilities: np.ndarray, eligible: np.ndarray, exploration: float) -> np.ndarray:
    """A share of `exploration` goes evenly to every eligible model, the rest as before."""
    evenly = eligible / eligible.sum(axis=1, keepdims=True)
    return (1 - exploration) * probabilities + exploration * evenly
