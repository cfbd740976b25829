"""Comparison of groups of runs: IQM, probability of improvement and performance profiles, with bootstrap intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rl_training.evaluation import (
    Improvement,
    Profile,
    bootstrap_interval,
    iqm,
    performance_profile,
    probability_of_improvement,
)
from rl_training.experiment.report.groups import Group, set_scores

MOST_THRESHOLDS = 200
MOST_PAIRS = 15  # of all pairs of six groups; with more groups each is compared with the best alone


class Summary(NamedTuple):
    """The scores of a group in numbers: one score per run, in the units of returns."""

    count: int
    mean: float
    std: float  # over runs, the sample's (divided by n - 1); NaN for one run
    median: float
    iqm: float
    low: float  # of the 95 % interval of the IQM
    high: float


class Pair(NamedTuple):
    """Two groups, and the probability that a run of the first has a higher score than a run of the second."""

    better: Group
    other: Group
    improvement: Improvement


class EnvComparison(NamedTuple):
    """The groups of runs in one environment, with the statistics of their scores."""

    env_id: str
    score: str  # what it is
    groups: list[tuple[Group, Summary | None]]  # None: none of its runs has a score
    pairs: list[Pair]  # of groups with several runs
    notes: list[str]  # sentences about runs that do not count, or not like the others

    @property
    def several(self) -> list[Group]:
        """The groups with several scores: one run wins or loses against another, whatever the methods are worth."""
        return [group for group, summary in self.groups if summary is not None and summary.count > 1]


def compare_groups(groups: Sequence[Group]) -> Iterator[EnvComparison]:
    """Yields a comparison of the groups in each environment, which gives every group its scores."""
    by_env = defaultdict[str, list[Group]](list)
    for group in groups:
        by_env[group.env_id].append(group)
    for env_id, same in by_env.items():
        what, notes = set_scores(same)
        found = [(group, summarise(group.scores) if group.scores else None) for group in same]
        comparison = EnvComparison(env_id, what, found, [], notes)
        yield comparison._replace(pairs=compare_pairs(comparison.several))


def summarise(scores: Sequence[float]) -> Summary:
    """Returns the statistics of the scores of runs, of which there must be at least one."""
    std = float(np.std(scores, ddof=1)) if len(scores) > 1 else float("nan")
    interval = bootstrap_interval(scores)
    return Summary(len(scores), float(np.mean(scores)), std, float(np.median(scores)), iqm(scores), *interval)


def compare_pairs(groups: Sequence[Group]) -> list[Pair]:
    """Returns the pairs of groups, the higher IQM first; if there are many, only the pairs with the best group."""
    ranked = sorted(groups, key=lambda group: -iqm(group.scores))
    pairs = list(combinations(ranked, 2))
    if len(pairs) > MOST_PAIRS:
        pairs = [(ranked[0], other) for other in ranked[1:]]
    return [Pair(a, b, probability_of_improvement([a.scores], [b.scores])) for a, b in pairs]


def thresholds_of(groups: Sequence[Group]) -> np.ndarray:
    """Returns the scores at which profiles are drawn: those of the runs, where profiles fall, and one at each end.

    If there are very many, they are evenly spaced.
    """
    scores = np.unique([score for group in groups for score in group.scores])
    margin = 0.02 * (float(np.ptp(scores)) or max(abs(float(scores[0])), 1.0))
    low, high = scores[0] - margin, scores[-1] + margin
    return np.linspace(low, high, MOST_THRESHOLDS) if len(scores) > MOST_THRESHOLDS else np.array([low, *scores, high])


def profile_of(group: Group, thresholds: np.ndarray) -> Profile:
    """Returns the share of a group's runs above each threshold, with its 95 % intervals."""
    return performance_profile([group.scores], thresholds)
