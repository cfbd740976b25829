"""A policy that says what it is told to say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage.policies.policy import Contexts


@dataclass
class FixedPolicy:
    shares: dict[str, float]
    sure: float = 1.0
    error: BaseException | None = None
    name: str = "fixed"
    version: str = "7"

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        if self.error is not None:
            raise self.error
        return np.array([[self.shares.get(model, 0.0) for model in models]] * len(contexts.role))

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.full(len(contexts.role), self.sure)
