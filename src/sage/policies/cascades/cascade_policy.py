"""What a cascade policy is: in every state of a task, probabilities over the models to try next and over stopping."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from sage.policies.policy import Contexts, select_rows

ACCEPTED, REJECTED, UNVERIFIED = 1, -1, 0


class CascadeStates(NamedTuple):
    """Where tasks stand, one row each; `models` is the pool that the columns of a call belong to."""

    contexts: Contexts
    order: np.ndarray  # int64 [n, models]: 1 for the model that was tried first, 2 for the second ...; 0 not tried
    verdict: (
        np.ndarray
    )  # int64 [n, models]: ACCEPTED, REJECTED, or UNVERIFIED where not tried or the verifier could not say
    spent_usd: np.ndarray  # float64 [n]: by the attempts so far; unknown costs count as 0


class CascadePolicy(Protocol):
    """A policy that may be learned on another pool: it never tries models that it does not know."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """[n, models + 1] float64, the last column is to stop; rows add up to 1 and are 0 where not `eligible`.

        `eligible` is bool of the same shape: untried models that may answer, and whether stopping is possible.
        """
        ...


def taken_column(order: np.ndarray, verdict: np.ndarray) -> np.ndarray:
    """int64 [n]: the model whose answer would be taken now: the latest accepted one, or else the latest; -1 without any."""
    accepted = np.where(verdict == ACCEPTED, order, 0)
    rank = np.where((accepted > 0).any(axis=1, keepdims=True), accepted, order)
    return np.where(order.any(axis=1), rank.argmax(axis=1), -1)


def select_states(states: CascadeStates, rows: np.ndarray) -> CascadeStates:
    contexts, *columns = states
    return CascadeStates(select_rows(contexts, rows), *(column[rows] for column in columns))
