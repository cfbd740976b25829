"""The contract of a cascade policy: in each state of a task, probabilities of the next model and of stopping."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from sage.policies.policy import Contexts, select_rows

ACCEPTED, REJECTED, UNVERIFIED = 1, -1, 0


class CascadeStates(NamedTuple):
    """The states of tasks, one row each: attempts so far, verdicts on them, and money spent.

    Columns of models are those of the pool `models` that is passed along with the states.
    """

    contexts: Contexts
    order: np.ndarray  # int64 [n, models]: 1 for the model that was tried first, 2 for the second ...; 0 not tried
    verdict: (
        np.ndarray
    )  # int64 [n, models]: ACCEPTED, REJECTED, or UNVERIFIED where not tried or the verifier could not say
    spent_usd: np.ndarray  # float64 [n]: by the attempts so far; unknown costs count as 0


class CascadePolicy(Protocol):
    """A policy of cascades; it never tries models of the pool that it does not know."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns float64 [n, models + 1]: the probability of trying each model next; the last column is to stop.

        Rows add up to 1 and are 0 where `eligible` (bool, same shape) is False: models that were tried or may not
        answer, and stopping before the first attempt.
        """
        ...


def taken_column(order: np.ndarray, verdict: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the model whose answer would be taken if the cascade stopped now; -1 before the first attempt.

    That is the latest accepted answer, or else the latest one.
    """
    accepted = np.where(verdict == ACCEPTED, order, 0)
    rank = np.where((accepted > 0).any(axis=1, keepdims=True), accepted, order)
    return np.where(order.any(axis=1), rank.argmax(axis=1), -1)


def select_states(states: CascadeStates, rows: np.ndarray) -> CascadeStates:
    """Returns the states of the given rows (indices or a mask)."""
    contexts, *columns = states
    return CascadeStates(select_rows(contexts, rows), *(column[rows] for column in columns))
