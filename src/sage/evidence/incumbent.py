"""Who decides today: the policy that a new one must beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sage.evidence.routing_data import RoutingData
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import RoutingPolicy

LOGGED = "the most likely model of the log"


class IncumbentError(ValueError):
    """A log that does not say what the static table would have done."""


class Incumbent(NamedTuple):
    """The incumbent's probabilities on the rows of a log."""

    probabilities: np.ndarray  # [n, models]
    name: str
    version: str

    @property
    def choice(self) -> np.ndarray:
        """int64 [n]"""
        return self.probabilities.argmax(axis=1)


def incumbent_of(data: RoutingData, static: RoutingPolicy | None) -> Incumbent:
    """The static table where there is one, else the log's own most likely model; exploration is left out.

    A log that a learned policy wrote does not say what the static table would have done.
    """
    if static is not None:
        given = static.probabilities(data.contexts, data.models, data.eligible)
        return Incumbent(most_likely(given), static.name, static.version)
    policies = sorted(set(zip(data.policy.tolist(), data.policy_version.tolist(), strict=True)))
    if len(policies) > 1:
        raise IncumbentError(
            f"the log was written by {len(policies)} policies ({', '.join(map(' '.join, policies))}), so it does not say what "
            "the static table would have done: give the table with --models models.yaml"
        )
    return Incumbent(most_likely(data.propensity), LOGGED, " ".join(policies[0]))


def most_likely(probabilities: np.ndarray) -> np.ndarray:
    """One for the largest entry of each row (the first of equals), zero elsewhere."""
    chosen = np.zeros_like(probabilities)
    chosen[np.arange(len(chosen)), probabilities.argmax(axis=1)] = 1.0
    return chosen


def as_served(
    data: RoutingData, policy: LearnedPolicy, incumbent: Incumbent, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities [n, models] with the guard's abstention, and the rows in which the policy decides differently."""
    own = policy.probabilities(data.contexts, data.models, data.eligible)
    sure = policy.confidence(data.contexts, data.models, data.eligible) >= floor
    candidate = np.where(sure[:, None], own, incumbent.probabilities)
    return candidate, (candidate != incumbent.probabilities).any(axis=1)
