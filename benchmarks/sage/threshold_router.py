"""A text policy as a router between a cheap and a dear model: its quality and cost at every worth of a dollar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts
from sage.policies.text.text_policy import TextPolicy


@dataclass(frozen=True)
class Curve:
    """Quality and cost at every operating point, relative to always choosing the dear model."""

    quality: np.ndarray
    cost: np.ndarray

    def cost_at(self, quality: float) -> float:
        """Returns the lowest relative cost with at least this relative quality.

        Raises ValueError if no point reaches it.
        """
        return float(self.cost[self.quality >= quality].min())


def curve_of(dear: np.ndarray, score: np.ndarray, cost: np.ndarray) -> Curve:
    """Returns the curve of choices `dear` (bool [points, n]: takes the dear model).

    `score` and `cost` are [n, (cheap, dear)].
    """
    quality, dollars = (
        np.where(dear, values[:, 1], values[:, 0]).sum(axis=1) / values[:, 1].sum() for values in (score, cost)
    )
    return Curve(quality, dollars)


def dear_at(policy: LearnedPolicy, contexts: Contexts, models: tuple[str, str], worths: np.ndarray) -> np.ndarray:
    """Returns bool [worths, n]: the rows in which the policy chooses the dear model, for each worth of a dollar.

    A policy that does not read texts chooses the same at every worth.
    """
    everyone = np.ones((len(contexts.role), 2), bool)
    if not isinstance(policy, TextPolicy):
        chosen = policy.probabilities(contexts, models, everyone)[:, 1] > 0
        return np.tile(chosen, (len(worths), 1))
    policy.probabilities(contexts, models, everyone)  # predictions are kept for the other points
    return np.stack([policy.at(float(w)).probabilities(contexts, models, everyone)[:, 1] > 0 for w in worths])
