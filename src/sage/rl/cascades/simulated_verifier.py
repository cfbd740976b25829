"""A verifier with known error rates, for cascades over recorded outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RIGHT = 0.5  # a score from here on is what a verifier should accept


@dataclass(frozen=True)
class SimulatedVerifier:
    """A verifier that accepts right answers at one rate and wrong ones at another; its errors may be correlated.

    Every attempt looks at the task's own random number with probability sqrt(correlation), otherwise at a fresh one,
    and errs if the number is below its error rate. Errors of equal rates then have exactly that correlation. Raises
    ValueError for a value outside of 0 to 1.
    """

    true_positive: float = 0.95
    false_positive: float = 0.10
    correlation: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name}={value} must lie between 0 and 1")

    @property
    def name(self) -> str:
        return f"simulated {self.true_positive:g}/{self.false_positive:g} rho {self.correlation:g}"

    def accepts(self, right: np.ndarray, of_task: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns bool [n]: the verdicts on answers that are `right` or not (bool [n]).

        `of_task` [n] holds each task's uniform random number, which all its attempts share.
        """
        shared = generator.random(len(right)) < np.sqrt(self.correlation)
        number = np.where(shared, of_task, generator.random(len(right)))
        return right ^ (number < np.where(right, 1 - self.true_positive, self.false_positive))
