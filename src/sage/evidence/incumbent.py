"""The incumbent: the policy that decides today, and that a new one must beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sage.evidence.routing_data import RoutingData
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.serving import Fallback

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

    def choices(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Its choice, for a guard that falls back on it in the same rows and columns that it was made for."""
        if eligible.shape != self.probabilities.shape:
            raise ValueError(f"the incumbent of {len(self.probabilities)} rows was asked about {len(eligible)} others")
        return self.choice

    def differs(self, probabilities: np.ndarray) -> np.ndarray:
        """bool [n]: the rows to which others give other probabilities."""
        return (probabilities != self.probabilities).any(axis=1)


def incumbent_of(data: RoutingData, static: RoutingPolicy | None) -> Incumbent:
    """The static table where there is one, else the log's own most likely model; exploration is left out.

    A log that a learned policy wrote does not say what the static table would have done.
    """
    if static is not None:
        rows = data.contexts, data.models, data.eligible
        if isinstance(static, Fallback):  # whose choice need not be the most likely model once it explores
            certain = np.eye(len(data.models))[static.choices(*rows)]
        else:
            certain = most_likely(static.probabilities(*rows))
        return Incumbent(certain, static.name, static.version)
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
