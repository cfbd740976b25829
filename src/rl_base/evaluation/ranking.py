"""Scores of several candidates on the same episodes, and how sure their order is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rl_base.evaluation.over_seeds import percentiles

DRAWS_AT_ONCE = 2_000_000  # numbers of one batch of resamples


class Term(NamedTuple):
    """A mean given by episode sums: the sum of the numerators over the sum of the denominators."""

    numerator: np.ndarray  # [episodes]
    denominator: np.ndarray


class Standing(NamedTuple):
    """The order of candidates as indices, best first, with their scores and intervals in this order."""

    order: tuple[int, ...]
    scores: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    differences: tuple[tuple[float, float], ...]  # by how much the first is better than each
    first_is_best: float  # share of the resamples in which the first is the best


def compare(
    candidates: Sequence[Sequence[Term]],
    *,
    higher_is_better: bool = True,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Standing:
    """Orders candidates by score: the first of their terms or, if there are two, the first minus the second.

    Intervals come from resamples of the episodes, the same for all candidates, so that what they have in common cancels
    in their differences. Errors of the scores themselves, such as a model's, are in no interval. Raises ValueError
    unless `level` is between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: choose a confidence between 0 and 1, such as 0.95")
    sums = np.array([[[term.numerator, term.denominator] for term in terms] for terms in candidates], np.float64)
    num_episodes, rng = sums.shape[-1], np.random.default_rng(seed)
    scores = combine(sums.sum(-1))
    at_once, draws = max(1, DRAWS_AT_ONCE // num_episodes), []
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        times = rng.multinomial(num_episodes, np.full(num_episodes, 1 / num_episodes), size=size)
        draws.append(combine(sums @ times.T))
    drawn = np.concatenate(draws, axis=-1)
    drawn = drawn[:, np.isfinite(drawn).all(0)]  # a resample may miss all episodes of a term
    sign = 1.0 if higher_is_better else -1.0
    order = np.argsort(-sign * scores, kind="stable")
    best = (sign * drawn).argmax(0) if len(drawn) else np.empty(0)
    gaps = sign * (drawn[order[0]] - drawn)
    return Standing(
        tuple(int(index) for index in order),
        tuple(float(scores[index]) for index in order),
        tuple(percentiles(drawn[index], level) for index in order),
        tuple(percentiles(gaps[index], level) for index in order),
        float((best == order[0]).mean()),
    )


def combine(sums: np.ndarray) -> np.ndarray:
    """Returns the scores [candidates, ...]: each candidate's first mean, minus the second if there are two.

    `sums` [candidates, terms, 2, ...] are numerators and denominators of the means.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums[:, :, 0] / sums[:, :, 1]
    return means[:, 0] if means.shape[1] == 1 else means[:, 0] - means[:, 1]


def spearman(a: np.ndarray, b: np.ndarray) -> float | None:
    """Returns the rank correlation of two arrays, with mean ranks for ties; None if all numbers of one are equal."""
    ranks = [np.unique(x, return_inverse=True, return_counts=True) for x in (a, b)]
    means = [(np.cumsum(counts) - (counts - 1) / 2)[inverse] for _, inverse, counts in ranks]
    if any(np.ptp(mean) == 0 for mean in means):
        return None
    return float(np.corrcoef(means[0], means[1])[0, 1])
