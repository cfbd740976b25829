"""Cells side by side: ours with the same cell of a peer, and every variant of DQN with DQN."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from rl_training.bench.records import read_cell, scores_of
from rl_training.config.score_protocol import unlike
from rl_training.evaluation import Improvement, holm, probability_of_improvement

PLAIN = "dqn-cartpole-100k"


@dataclass(frozen=True)
class Comparison:
    """The difference of two benchmark cells' mean scores, its standard error, the chance that the first is better."""

    ours: str
    other: str
    limit: float  # standard errors that count as no worse
    difference: float
    error: float
    improvement: Improvement

    @property
    def worse(self) -> bool:
        return self.difference < -self.limit * self.error

    @property
    def sentence(self) -> str:
        errors = f"{self.difference / self.error:+.1f}" if self.error else "0"
        verdict = "**worse**" if self.worse else "not worse"
        return (
            f"- {self.ours} against {self.other}: {self.difference:+.1f}, {errors} standard errors "
            f"({verdict} by the rule of {self.limit:g})"
        )


def compare(folder: Path, ours: str, other: str, limit: float) -> Comparison:
    a, b = (scores_of(read_cell(folder, name)) for name in (ours, other))
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    difference = statistics.fmean(a) - statistics.fmean(b)
    return Comparison(ours, other, limit, difference, error, probability_of_improvement([a], [b]))


def comparisons(folder: Path, names: list[str]) -> list[Comparison]:
    """Returns comparisons of benchmark cells: NAME with another library's NAME-sb3, and variants of DQN with DQN.

    Both cells must be in `names`; pairs are left out if one has fewer than two seeds in `folder`, or if their protocols
    are unlike.
    """
    return [compare(folder, *pair) for pair in pairs_of(folder, names) if why_unlike(folder, *pair[:2]) is None]


def refusals(folder: Path, names: list[str]) -> list[str]:
    """Returns a sentence for each pair of cells that `comparisons` leaves out because their protocols are unlike."""
    found = [why_unlike(folder, ours, other) for ours, other, _ in pairs_of(folder, names)]
    return [sentence for sentence in found if sentence is not None]


def why_unlike(folder: Path, ours: str, other: str) -> str | None:
    first, second = (read_cell(folder, name)[0].get("protocol", {}) for name in (ours, other))
    differences = unlike(first, second)
    if not differences:
        return None
    return f"{ours} is not compared with {other}, whose protocol is unlike: {'; '.join(differences)}."


def pairs_of(folder: Path, names: list[str]) -> list[tuple[str, str, float]]:
    pairs = [(name, f"{name}-sb3", 2.0) for name in names if f"{name}-sb3" in names]
    variants = [name for name in names if name.endswith("-cartpole-100k") and name != PLAIN]
    pairs += [(name, PLAIN, 2.33) for name in variants]
    return [pair for pair in pairs if all(len(read_cell(folder, name)) > 1 for name in pair[:2])]


def better(found: list[Comparison]) -> list[bool]:
    """Returns one bool per comparison: True if ours is better, with a joint chance of error of at most 5 % (Holm)."""
    return holm([one.improvement.p_value for one in found])
