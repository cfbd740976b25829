"""The number that a study maximises, from the evaluations of a run."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from rl_training.config import ConfigError


@dataclass(frozen=True)
class Objective:
    """The number by which trials are compared: a run's best mean return, or the average of its last ones."""

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
        """Returns the objective of a run whose evaluations had these mean returns, by step (at least one).

        For a run that goes on, this is the value so far.
        """
        means = [evaluations[step] for step in sorted(evaluations)]
        return max(means) if self.last is None else statistics.fmean(means[-self.last :])
