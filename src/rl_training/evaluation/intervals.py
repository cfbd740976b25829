"""Intervals and one-sided bounds from the influence values of an estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from rl_training.evaluation.estimate import Estimate

Method = Literal["t", "normal", "bootstrap", "bernstein", "anytime"]
Side = Literal["both", "lower", "upper"]
ROUNDING = 1e-12  # of a value worth finding: a standard error below it is none
MAX_DRAWS_AT_ONCE = 2_000_000  # bootstrap indices in memory


@dataclass(frozen=True)
class Interval:
    """Where the value lies with the stated confidence; a one-sided bound is infinite on the other side."""

    low: float
    high: float
    level: float
    method: str


def interval(
    estimate: Estimate,
    *,
    method: Method = "t",
    level: float = 0.95,
    side: Side = "both",
    span: float | None = None,
    scale: float = 0.05,
    skewed: bool = False,
    resamples: int = 1_999,
    seed: int = 0,
) -> Interval:
    """An interval, or a one-sided bound, of the estimated value, over independent clusters.

    - `t`, `normal`: influence-function standard errors; `t` also allows for how uncertain they are themselves.
    - `bootstrap`: clusters are drawn again and the estimate is studentised, which follows the skew of the weights.
    - `bernstein`: holds for any number of clusters, and is wide. Needs the width of the range of one cluster's term: `span`,
      or a log with a `reward_range`.
    - `anytime`: like `t`, but holds at every look at a growing log together, however often you look and whenever you stop. It
      is shortest where the standard error is about a third of `scale`, a size of the value that you choose beforehand.

    With `skewed`, the end on the side of the longer tail of `t`, `normal` and `anytime` is moved out by Edgeworth's first term:
    for amounts without a bound, such as costs. All are widened by the estimate's bias bound.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: choose a confidence between 0 and 1, such as 0.95")
    if method not in get_args(Method) or side not in get_args(Side):
        raise ValueError(f"method={method!r}, side={side!r}: choose from {get_args(Method)} and {get_args(Side)}")
    if not scale > 0:
        raise ValueError(f"scale is {scale}: give the size of a value worth finding, above 0")
    tail = (1 - level) / 2 if side == "both" else 1 - level
    below, above = half_widths(estimate, method, tail, span=span, scale=scale, resamples=resamples, seed=seed)
    if skewed and method in ("t", "normal", "anytime"):
        shift = skewness_shift(estimate, above)
        below, above = below + max(-shift, 0.0), above + max(shift, 0.0)
    low = estimate.value - below - estimate.bias_bound if side != "upper" else -math.inf
    high = estimate.value + above + estimate.bias_bound if side != "lower" else math.inf
    return Interval(low, high, level, method)


def half_widths(
    estimate: Estimate, method: Method, tail: float, *, span: float | None, scale: float, resamples: int, seed: int
) -> tuple[float, float]:
    """How far below and above the value an interval reaches that leaves out `tail` on each side."""
    error, count = estimate.standard_error, len(estimate.influence)
    if method == "bernstein":
        width = bernstein_width(estimate, tail, span)
        return width, width
    if count < 2 or not error > ROUNDING * scale:
        return error, error  # unknown, or known but for rounding
    if method == "bootstrap":
        draws = studentized_draws(estimate.influence, resamples, seed)
        # As if the estimate were one more draw: numpy's default leaves out too much where draws are few.
        low, high = np.quantile(draws, [tail, 1 - tail], method="weibull")
        return float(high) * error, -float(low) * error
    if method == "anytime":
        tail = NormalDist().cdf(-anytime_quantile(tail, scale / error))
    normal = method == "normal"
    quantile = (
        NormalDist().inv_cdf(1 - tail) if normal else t_quantile(1 - tail, degrees_of_freedom(estimate.influence))
    )
    return quantile * error, quantile * error


def skewness_shift(estimate: Estimate, width: float) -> float:
    """How far an interval of this half-width must move up for the skewness of the influence: Edgeworth's first term.

    Of a studentised mean it is (2 z^2 + 1) times the skewness over 6 roots of the clusters (Hall, 1992, section 3.10.6).
    """
    error, influence = estimate.standard_error, estimate.influence
    if not 0 < error < width:  # unknown, or known but for rounding
        return 0.0
    skewness = float((influence**3).mean()) / float((influence**2).mean()) ** 1.5
    return error * (2 * (width / error) ** 2 + 1) * skewness / (6 * math.sqrt(len(influence)))


def anytime_quantile(tail: float, ratio: float) -> float:
    """How many standard errors a value may lie above its mean at any look, ever, but for a chance of `tail`.

    The one-sided normal-mixture boundary (Howard et al., 2021, arXiv:1810.08240) in the time of information, one over the
    squared standard error, in which estimates from a growing log move like a Brownian motion (arXiv:2103.06476). `ratio` is
    the mixture's scale over the standard error.
    """
    return math.sqrt(2 * (1 + ratio**-2) * math.log1p(math.sqrt(1 + ratio**2) / (2 * tail)))


def degrees_of_freedom(influence: np.ndarray) -> int:
    """Of a standard error: one less than the clusters, or Satterthwaite's number where the influence has heavy tails.

    A variance of n values with kurtosis k has a relative variance of (k - 1) / n; of normal values with d degrees, 2 / d.
    """
    count = len(influence)
    squares = influence**2
    kurtosis = count * float((squares**2).sum()) / float(squares.sum()) ** 2
    return count - 1 if kurtosis <= 1 else max(1, min(count - 1, int(2 * count / (kurtosis - 1))))


def bernstein_width(estimate: Estimate, tail: float, span: float | None) -> float:
    """Theorem 4 of arXiv:0907.3740, for terms in a range of the given width.

    Exact where clusters have one size; otherwise the mean size stands in for the expected one.
    """
    width = estimate.span if span is None else span
    if width is None:
        raise ValueError(
            f"an empirical-Bernstein bound of {estimate.name!r} needs the range of its terms: give the log a reward_range "
            "(IPS, doubly robust, SWITCH), or state span=; self-normalised estimates are no mean of bounded terms"
        )
    count, log_term = len(estimate.influence), math.log(2 / tail)
    if count < 2:
        return math.inf
    variance = float(estimate.influence.var(ddof=1))
    return math.sqrt(2 * variance * log_term / count) + 7 * width * log_term / (3 * (count - 1))


def studentized_draws(influence: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """[resamples] the mean over its standard error, of clusters drawn with replacement."""
    rng, count = np.random.default_rng(seed), len(influence)
    at_once = max(1, MAX_DRAWS_AT_ONCE // count)
    draws = []
    for start in range(0, resamples, at_once):
        drawn = influence[rng.integers(count, size=(min(at_once, resamples - start), count), dtype=np.int32)]
        mean = drawn.mean(axis=1)
        variance = (np.einsum("bc,bc->b", drawn, drawn) / count - mean**2) * (count / (count - 1))
        error = np.sqrt(variance.clip(min=0) / count)
        draws.append(np.divide(mean, error, out=np.zeros(len(drawn)), where=error > 0))
    return np.concatenate(draws)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: int) -> float:
    """Student's t, by bisection of its integral in the angle whose tangent is t over the root of the degrees."""
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    nodes, node_weights = np.polynomial.legendre.leggauss(64)
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(math.pi) / 2
    low, high = 0.0, min(math.pi / 2, 40 / math.sqrt(degrees))
    for _ in range(60):
        angle = (low + high) / 2
        integral = angle / 2 * (node_weights @ np.cos(angle / 2 * (nodes + 1)) ** (degrees - 1))
        low, high = (angle, high) if 0.5 + math.exp(log_scale) * integral < probability else (low, angle)
    return math.sqrt(degrees) * math.tan(low)
