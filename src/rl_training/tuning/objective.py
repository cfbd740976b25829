"""The number that a study maximises, from the evaluations of a run."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from rl_training.config import ConfigError


@dataclass(frozen=True)
class Objective:
    """The rule that makes one number of a run's evaluations: the best mean return, or the average of the last ones."""

    text: str
    last: int | None  # None: the best

    @classmethod
    def parse(cls, text: str) -> Objective:
        match = re.fullmatch(r"last(?::(\d+))?|best", text) if isinstance(text, str) else None
        if match is None or match[1] == "0":
            raise ConfigError(
                f"--objective {text!r} is not known: use last (the last evaluation), last:5 (the mean of the last five) or best"
            )
        return cls(text, None if text == "best" else int(match[1] or 1))

    def of(self, evaluations: Mapping[int, float]) -> float:
        """Returns the objective, a number, of a run; `evaluations` maps steps (at least one) to mean returns.

        For a run that goes on, this is the value so far.
        """
        means = [evaluations[step] for step in sorted(evaluations)]
        return max(means) if self.last is None else statistics.fmean(means[-self.last :])
