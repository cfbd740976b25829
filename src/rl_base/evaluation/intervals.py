"""Intervals and one-sided bounds from the influence values of an estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from rl_base.evaluation.estimate import Estimate

Method = Literal["t", "normal", "bootstrap", "bernstein", "anytime"]
Side = Literal["both", "lower", "upper"]
ROUNDING = 1e-12  # of a value worth finding: a standard error below it is none
MAX_DRAWS_AT_ONCE = 2_000_000  # bootstrap indices in memory


@dataclass(frozen=True)
class Interval:
    """An interval of a value at a confidence level; a one-sided bound is infinite on the other side."""

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
    """Returns an interval of the estimated value or, for `side` "lower" or "upper", a one-sided bound.

    - `t`, `normal`: influence-function standard errors; `t` also allows for how uncertain they are themselves.
    - `bootstrap`: clusters are drawn again and the estimate is studentised, which follows the skew of the weights.
    - `bernstein`: holds for any number of clusters, and is wide. Needs the width of the range of one cluster's term: `span`,
      or a log with a `reward_range`.
    - `anytime`: like `t`, but holds at every look at a growing log together, however often you look and whenever you stop. It
      is shortest where the standard error is about a third of `scale`, a size of the value that you choose beforehand.

    Where the range of rewards is known, `t`, `normal` and `anytime` allow for outcomes that the log has not shown
    (`reach_above`). Then, or with `skewed`, for amounts without a bound such as costs, their end on the side of the
    longer tail is moved out by Edgeworth's first term. All are widened by the estimate's bias bound, and all treat
    clusters as independent. Raises ValueError for an unknown `method` or `side`, a `level` outside 0 to 1, a `scale`
    not above 0, or `bernstein` without a span.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: choose a confidence between 0 and 1, such as 0.95")
    if method not in get_args(Method) or side not in get_args(Side):
        raise ValueError(f"method={method!r}, side={side!r}: choose from {get_args(Method)} and {get_args(Side)}")
    if not scale > 0:
        raise ValueError(f"scale is {scale}: give the size of a value worth finding, above 0")
    tail = (1 - level) / 2 if side == "both" else 1 - level
    how = {"span": span, "scale": scale, "skewed": skewed, "resamples": resamples, "seed": seed}
    below, above = half_widths(estimate, method, tail, **how)
    low = estimate.value - below - estimate.bias_bound if side != "upper" else -math.inf
    high = estimate.value + above + estimate.bias_bound if side != "lower" else math.inf
    return Interval(low, high, level, method)


def half_widths(
    estimate: Estimate,
    method: Method,
    tail: float,
    *,
    span: float | None,
    scale: float,
    skewed: bool,
    resamples: int,
    seed: int,
) -> tuple[float, float]:
    """Returns the distances from the value to the low and high end of an interval; `tail` is the chance beyond each."""
    error, influence = estimate.standard_error, estimate.influence
    if method == "bernstein":
        width = bernstein_width(estimate, tail, span)
        return width, width
    if len(influence) < 2:
        return error, error
    if method == "bootstrap":
        if not error > ROUNDING * scale:
            return error, error  # known but for rounding
        draws = studentized_draws(influence, resamples, seed)
        # As if the estimate were one more draw: numpy's default leaves out too much where draws are few.
        low, high = np.quantile(draws, [tail, 1 - tail], method="weibull")
        return float(high) * error, -float(low) * error
    worst, best = (0.0, 0.0) if estimate.unseen is None else estimate.unseen.influence
    skewed = skewed or estimate.unseen is not None
    below = reach_above(-influence, -worst, method, tail, scale=scale, skewed=skewed)
    return below, reach_above(influence, best, method, tail, scale=scale, skewed=skewed)


def reach_above(
    influence: np.ndarray, unseen: float, method: Method, tail: float, *, scale: float, skewed: bool
) -> float:
    """Returns the distance from the value to an interval's upper end; `unseen` is a best outcome's influence.

    If the log shows no influence of about this size, as where an action never failed, the variance is as if it had
    shown one: n equal tries without a failure then have the exact bound -ln(tail) / n. From one failure on, the
    degrees of freedom and the skewness give about the exact bounds: for k = 1, 2, 3, 10 failures 6.7, 7.4, 8.7, 18.1
    failures (t, 97.5 %), where 5.6, 7.2, 8.8, 18.4 are exact. The skewness counts by Edgeworth's first term for a
    studentised mean, (2 z^2 + 1) / 6 times the skewness of the sum (Hall, 1992, section 3.10.6).
    """
    count = len(influence)
    shown = float((influence[influence >= unseen / 2] ** 2).sum()) if unseen > 0 else 0.0
    error = float(influence.std(ddof=1)) / math.sqrt(count)
    with_one = math.hypot(error, doubt_of(unseen, shown) / count)
    if not with_one > ROUNDING * scale:
        return error  # known but for rounding
    z = anytime_quantile(tail, scale / with_one) if method == "anytime" else NormalDist().inv_cdf(1 - tail)
    tail, edgeworth = NormalDist().cdf(-z), (2 * z**2 + 1) / 6
    doubt = doubt_of(-math.log(tail) / (z + edgeworth) * unseen, shown)
    error = math.hypot(error, doubt / count)
    quantile = z if method == "normal" else t_quantile(1 - tail, degrees_of_freedom(influence, doubt))
    if not skewed:
        return quantile * error
    skewness = (float((influence**3).sum()) + doubt**3) / (float((influence**2).sum()) + doubt**2) ** 1.5
    return error * (quantile + max(edgeworth * skewness, 0.0))


def doubt_of(unseen: float, shown: float) -> float:
    """Returns the square root of `unseen` squared minus `shown`, a sum of squared influences; 0 if that is negative."""
    return math.sqrt(max(unseen**2 - shown, 0.0))


def anytime_quantile(tail: float, ratio: float) -> float:
    """Returns the number of standard errors that a value exceeds at any look at a growing log with chance `tail`.

    The one-sided normal-mixture boundary (Howard et al., 2021, arXiv:1810.08240) in the time of information, one over the
    squared standard error, in which estimates from a growing log move like a Brownian motion (arXiv:2103.06476). `ratio` is
    the mixture's scale over the standard error.
    """
    return math.sqrt(2 * (1 + ratio**-2) * math.log1p(math.sqrt(1 + ratio**2) / (2 * tail)))


def degrees_of_freedom(influence: np.ndarray, doubt: float = 0.0) -> int:
    """Returns the degrees of freedom of a standard error: clusters minus one, or Satterthwaite's fewer for heavy tails.

    A variance of n values with kurtosis k has a relative variance of (k - 1) / n; of normal values with d degrees, 2 /
    d. What `doubt` adds to the variance does not vary.
    """
    count = len(influence)
    squares = influence**2
    total = float(squares.sum())
    kurtosis = count * float((squares**2).sum()) / total**2 if total else 1.0
    if kurtosis <= 1:
        return count - 1
    return max(1, min(count - 1, int(2 * count / (kurtosis - 1) * (1 + doubt**2 / total) ** 2)))


def bernstein_width(estimate: Estimate, tail: float, span: float | None) -> float:
    """Returns half the width of an interval by Theorem 4 of arXiv:0907.3740, with terms in a range of width `span`.

    None stands for the estimate's own span. Exact where clusters have one size; otherwise the mean size stands in for
    the expected one. Infinite for one cluster; raises ValueError if there is no span.
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
    """Returns bootstrap draws [resamples] of the mean of `influence` [clusters] divided by its standard error."""
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


@lru_cache(maxsize=1)
def gauss_legendre(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nodes and weights of Gauss and Legendre's quadrature on -1 to 1."""
    return np.polynomial.legendre.leggauss(points)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: int) -> float:
    """Returns the quantile of Student's t distribution at a probability, for so many degrees of freedom.

    It is found by bisection of the density's integral over the angle whose tangent is t over the root of `degrees`.
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    nodes, node_weights = gauss_legendre(64)
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(math.pi) / 2
    low, high = 0.0, min(math.pi / 2, 40 / math.sqrt(degrees))
    for _ in range(60):
        angle = (low + high) / 2
        integral = angle / 2 * (node_weights @ np.cos(angle / 2 * (nodes + 1)) ** (degrees - 1))
        low, high = (angle, high) if 0.5 + math.exp(log_scale) * integral < probability else (low, angle)
    return math.sqrt(degrees) * math.tan(low)
