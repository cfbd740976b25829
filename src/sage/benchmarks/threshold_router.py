"""What a text policy gives between a cheap and a dear model, at every worth of a dollar: its own choices, as served."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts
from sage.policies.text.text_policy import TextPolicy


@dataclass(frozen=True)
class Curve:
    """Quality and cost at every operating point, relative to always the dear model."""

    quality: np.ndarray
    cost: np.ndarray

    def cost_at(self, quality: float) -> float:
        """The least relative cost with at least this relative quality."""
        return float(self.cost[self.quality >= quality].min())


def curve_of(dear: np.ndarray, score: np.ndarray, cost: np.ndarray) -> Curve:
    """`dear` is bool [points, n]: who gets the dear model; `score` and `cost` are [n, (cheap, dear)]."""
    quality, dollars = (
        np.where(dear, values[:, 1], values[:, 0]).sum(axis=1) / values[:, 1].sum() for values in (score, cost)
    )
    return Curve(quality, dollars)


def dear_at(policy: LearnedPolicy, contexts: Contexts, models: tuple[str, str], worths: np.ndarray) -> np.ndarray:
    """bool [worths, n]: where the policy's probabilities are on the dear model; one that does not read texts has one point."""
    everyone = np.ones((len(contexts.role), 2), bool)
    if not isinstance(policy, TextPolicy):
        chosen = policy.probabilities(contexts, models, everyone)[:, 1] > 0
        return np.tile(chosen, (len(worths), 1))
    policy.probabilities(contexts, models, everyone)  # predictions are kept for the other points
    return np.stack([policy.at(float(w)).probabilities(contexts, models, everyone)[:, 1] > 0 for w in worths])
