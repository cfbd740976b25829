"""Diagnostics of a log: how much of it counts for the evaluated policy, and whether its propensities add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rl_base.evaluation.bandit import importance_ratios, unsupported_mass
from rl_base.evaluation.estimate import ratio_estimate
from rl_base.evaluation.logs import BanditLog, EpisodeLog
from rl_base.evaluation.sequential import step_ratios, trajectory_weights

MIN_EFFECTIVE_SAMPLE_SIZE = 50.0
ROWS_PER_SQUARED_SKEWNESS = 25.0  # Cochran (Sampling Techniques): below, a 95 % interval is not one
ROUNDING = 1e-4  # a mean weight as near to 1 as that is 1: datasets keep log-probabilities in single precision
MEAN_WEIGHT_TEST = 0.01
LARGE_SHARE = 0.1
WeightMoments = tuple[float, float, float]
WAYS_OUT = "log more, let the logging policy explore more where the two differ, or evaluate a policy closer to it"


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Statistics of the importance weights of a policy on a log, and the refusal or warnings that follow from them."""

    num_rows: int
    """Decisions, or episodes."""
    num_clusters: int
    effective_sample_size: float
    """(sum of w)^2 / (sum of w^2) over clusters; w is a cluster's summed weight."""
    expected_effective_sample_size: float | None
    """The same per row, in expectation over the logged contexts' actions: what rare actions that were not drawn would have
    done. None where only the probabilities of the actions taken are known."""
    weight_skewness: float
    """Of the weights, in expectation like the size above where that is known: a large weight that few rows can get."""
    largest_weight_share: float
    """Of one cluster in the sum of all weights."""
    unsupported_mass: float | None
    """The target's probability of actions that the behaviour policy never takes. None where that is unknown."""
    mean_weight: float
    """1 in expectation, if propensities are right and every action is supported."""
    mean_weight_error: float
    """Its standard error."""

    @property
    def mean_weight_p_value(self) -> float:
        """The probability of a mean weight at least so far from 1, if its expectation is 1."""
        distance = abs(self.mean_weight - 1)
        if distance < ROUNDING:
            return 1.0
        if not self.mean_weight_error > 0:
            return 0.0
        return 2 * NormalDist().cdf(-distance / self.mean_weight_error)

    @property
    def required_rows(self) -> float:
        """The number of rows that the mean of weights with this skewness needs to be about normally distributed."""
        return ROWS_PER_SQUARED_SKEWNESS * self.weight_skewness**2

    @property
    def refusal(self) -> str | None:
        """The reason why the weights support no estimate, with advice, as a sentence; None if they support one."""
        expected = math.inf if self.expected_effective_sample_size is None else self.expected_effective_sample_size
        size = min(self.effective_sample_size, expected)
        if size < MIN_EFFECTIVE_SAMPLE_SIZE:
            return (
                f"the effective sample size is {size:.1f} ({self.num_rows} rows in {self.num_clusters} clusters, largest "
                f"weight share {self.largest_weight_share:.0%}), below {MIN_EFFECTIVE_SAMPLE_SIZE:g}: {WAYS_OUT}"
            )
        if self.num_rows < self.required_rows:
            return (
                f"the weights have a skewness of {self.weight_skewness:.1f}, for which {self.required_rows:,.0f} rows are "
                f"needed, and there are {self.num_rows}: few rows, perhaps none of those logged, decide; {WAYS_OUT}"
            )
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about problems of the weights to look at before trusting the estimates; empty if there are none."""
        found = []
        if self.mean_weight_p_value < MEAN_WEIGHT_TEST:
            found.append(
                f"the mean weight is {self.mean_weight:.3f} with a standard error of {self.mean_weight_error:.3f}, not 1: "
                "propensities are wrong, or actions lack support"
            )
        if self.unsupported_mass:
            found.append(
                f"{self.unsupported_mass:.1%} of the target's probability is on actions that were never possible or whose "
                "propensity is unknown; intervals are widened by what their rewards could be"
            )
        if self.largest_weight_share > LARGE_SHARE:
            found.append(f"one cluster carries {self.largest_weight_share:.0%} of all weight")
        return tuple(found)


def diagnose_bandit(log: BanditLog, target: np.ndarray) -> Diagnostics:
    """Returns statistics of the weights of a policy with probabilities `target` [n, actions] on logged decisions."""
    ratios = importance_ratios(log, target)
    supported = np.where(np.isfinite(ratios), target, 0.0)
    finite = np.where(np.isfinite(ratios), ratios, 0.0)
    first, second, third = (float((supported * finite**power).sum(axis=1).mean()) for power in range(3))
    return diagnose_weights(
        np.sum([tries.of(ratios) for tries in log.tries], axis=0),
        log.cluster_index,
        unsupported_mass=unsupported_mass(log, target),
        expected_moments=(first, second, third),
    )


def diagnose_episodes(log: EpisodeLog, target: np.ndarray, moments: np.ndarray | None = None) -> Diagnostics:
    """Returns statistics of whole-episode weights of a policy on a log.

    `target` [n] are the policy's probabilities of the logged actions. `moments` [n, 3] are of `ratio_moments` and let
    the statistics include actions that were not drawn; None: drawn actions alone.
    """
    expected = None if moments is None else weight_moments(log, target, moments)
    return diagnose_weights(trajectory_weights(log, target), log.cluster_index, expected_moments=expected)


def ratio_moments(target: np.ndarray, propensities: np.ndarray) -> np.ndarray:
    """Returns [n, 3]: the expected ratio of target to propensity in a row, its expected square and its expected cube.

    Both arguments are probabilities [n, actions]; the expectation is over the actions that the log could have drawn.
    """
    ratios = np.divide(target, propensities, out=np.zeros_like(propensities), where=propensities > 0)
    return np.stack([(propensities * ratios**power).sum(axis=1) for power in (1, 2, 3)], axis=1)


def weight_moments(log: EpisodeLog, target: np.ndarray, moments: np.ndarray) -> WeightMoments:
    """Returns the expected weight of a whole episode, its expected square and its expected cube.

    `target` [n] are probabilities of the logged actions and `moments` [n, 3] those of `ratio_moments`. Each step adds
    the change that its draw is expected to make, so a large weight counts in every episode that could have got it, not
    only in the few that did.
    """
    ratios = step_ratios(log, target)
    before = np.concatenate([np.ones((len(ratios), 1)), ratios.cumprod(axis=1)[:, :-1]], axis=1)
    changes = [before**power * (log.padded(moments[:, power - 1], 1.0) - 1) for power in (1, 2, 3)]
    first, second, third = (1.0 + float(change.sum(axis=1).mean()) for change in changes)
    return first, second, third


def step_sample_sizes(log: EpisodeLog, target: np.ndarray) -> np.ndarray:
    """Returns [longest episode] the effective number of clusters at each step, weighted by the ratios up to it.

    An episode's weight is the product of its ratios; one that has ended keeps its product. `target` [n] are the
    policy's probabilities of the logged actions.
    """
    weights = step_ratios(log, target).cumprod(axis=1)
    per_cluster = np.stack([np.bincount(log.cluster_index, column) for column in weights.T])
    squares = (per_cluster**2).sum(axis=1)
    return np.divide(per_cluster.sum(axis=1) ** 2, squares, out=np.zeros(len(squares)), where=squares > 0)


def diagnose_weights(
    weights: np.ndarray,
    clusters: np.ndarray,
    *,
    unsupported_mass: float | None = None,
    expected_moments: WeightMoments | None = None,
) -> Diagnostics:
    """Returns statistics of weights [n] whose mean should be 1, with rows grouped by `clusters` [n], numbers from 0.

    `expected_moments` are their expected mean, mean square and mean cube; None: those of the weights themselves.
    """
    mean = ratio_estimate("mean weight", weights, np.ones_like(weights), clusters)
    per_cluster = np.bincount(clusters, weights=weights)
    total = float(per_cluster.sum())
    first, second, third = expected_moments or tuple(float((weights**power).mean()) for power in (1, 2, 3))
    expected_size = len(weights) * first**2 / second if second else 0.0
    return Diagnostics(
        num_rows=len(weights),
        num_clusters=len(per_cluster),
        effective_sample_size=total**2 / float((per_cluster**2).sum()) if total else 0.0,
        expected_effective_sample_size=expected_size if expected_moments else None,
        weight_skewness=skewness(first, second, third),
        largest_weight_share=float(per_cluster.max()) / total if total else 1.0,
        unsupported_mass=unsupported_mass,
        mean_weight=mean.value,
        mean_weight_error=mean.standard_error,
    )


def skewness(first: float, second: float, third: float) -> float:
    """Returns the skewness of a variable from its mean, mean square and mean cube; 0 for a constant."""
    variance = second - first**2
    if variance < 1e-12 * second or second == 0:
        return 0.0
    return (third - 3 * first * second + 2 * first**3) / variance**1.5
