import math
from statistics import NormalDist

import numpy as np
import pytest

from rl_base.evaluation import Estimate, interval, inverse_propensity, self_normalized
from rl_base.evaluation.intervals import Method, anytime_quantile, degrees_of_freedom, studentized_draws, t_quantile
from tests.base.evaluation.ope_logs import make_bandit, make_target

FOUR = Estimate("four", 10.0, np.array([-3.0, -1.0, 1.0, 3.0]))  # variance 20 / 3
ERROR = math.sqrt(20 / 3 / 4)


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.706204736174698),
        (0.975, 2, 4.302652729749464),
        (0.975, 5, 2.5705818356363146),
        (0.995, 4, 4.604094871349993),
        (0.95, 10, 1.8124611228116756),
        (0.975, 30, 2.0422724563012373),
        (0.975, 1000, 1.9623390808264078),
    ],
)
def test_students_t(probability: float, degrees: int, expected: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-expected, rel=1e-9)


def test_students_t_becomes_normal() -> None:
    assert t_quantile(0.975, 10**6) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-5)


def test_known_standard_error_and_intervals() -> None:
    assert FOUR.standard_error == pytest.approx(ERROR)
    t = interval(FOUR)
    assert (t.low, t.high) == pytest.approx((10 - 3.182446305 * ERROR, 10 + 3.182446305 * ERROR))
    normal = interval(FOUR, method="normal", level=0.9)
    assert (normal.low, normal.high) == pytest.approx((10 - 1.644853627 * ERROR, 10 + 1.644853627 * ERROR))


def test_heavy_tails_leave_fewer_degrees_of_freedom() -> None:
    """One of a hundred differs: the kurtosis is near 100, and the standard error is known from about two values."""
    influence = np.append(np.full(99, -1.0), 99.0)
    kurtosis = 100 * (99 + 99.0**4) / (99 + 99.0**2) ** 2
    assert degrees_of_freedom(influence) == int(200 / (kurtosis - 1)) == 2
    assert degrees_of_freedom(FOUR.influence) == 3
    assert degrees_of_freedom(np.array([-1.0, 1.0])) == 1
    heavy = Estimate("heavy", 0.0, influence)
    assert interval(heavy).high == pytest.approx(4.302652729749464 * heavy.standard_error)
    assert interval(heavy, method="normal").high == pytest.approx(1.959963984540054 * heavy.standard_error)
    normal = np.random.default_rng(0).normal(size=10_000)
    assert degrees_of_freedom(normal - normal.mean()) > 9000


def test_the_two_sided_interval_is_made_of_two_one_sided_bounds() -> None:
    for method in ("t", "normal", "bootstrap", "bernstein"):
        both = interval(FOUR, method=method, level=0.95, span=6.0)
        lower = interval(FOUR, method=method, level=0.975, side="lower", span=6.0)
        upper = interval(FOUR, method=method, level=0.975, side="upper", span=6.0)
        assert (lower.low, upper.high) == pytest.approx((both.low, both.high))
        assert (lower.high, upper.low) == (math.inf, -math.inf)


def test_bernstein_known_answer() -> None:
    log_term = math.log(2 / 0.05)
    width = math.sqrt(2 * 20 / 3 * log_term / 4) + 7 * 6 * log_term / (3 * 3)
    assert interval(FOUR, method="bernstein", side="lower", span=6.0).low == pytest.approx(10 - width)


def test_bernstein_takes_the_logs_range_and_refuses_without_one() -> None:
    log = make_bandit(reward_range=(0.0, 1.0))
    target = make_target(log)
    estimate = inverse_propensity(log, target)
    stated = interval(estimate, method="bernstein", span=estimate.span)
    assert interval(estimate, method="bernstein") == stated
    with pytest.raises(ValueError, match=r"bound of 'SNIPS' needs the range of its terms: give the log a reward_range"):
        interval(self_normalized(log, target), method="bernstein")


def test_bernstein_scales_with_the_largest_cluster() -> None:
    """A cluster three times the mean size can move the mean three times as far."""
    clusters = np.concatenate([np.zeros(30), np.arange(1, 11), np.arange(11, 21)])
    log = make_bandit(50, reward_range=(0.0, 1.0), clusters=clusters)
    apart = make_bandit(50, reward_range=(0.0, 1.0))
    target = make_target(log)
    spans = inverse_propensity(log, target).span, inverse_propensity(apart, target).span
    assert spans[0] == pytest.approx(spans[1] * 30 / (50 / 21))


def test_every_method_is_widened_by_the_bias_bound() -> None:
    for method in ("t", "normal", "bootstrap", "bernstein"):
        plain = interval(FOUR, method=method, span=6.0)
        wide = interval(Estimate("four", 10.0, FOUR.influence, bias_bound=2.5), method=method, span=6.0)
        assert (wide.low, wide.high) == pytest.approx((plain.low - 2.5, plain.high + 2.5))


def test_the_bootstrap_leaves_out_whole_draws() -> None:
    """Of 39 draws, 95 % two-sided leave out none: the ends are the smallest and the largest."""
    draws = studentized_draws(FOUR.influence, 39, seed=0)
    found = interval(FOUR, method="bootstrap", resamples=39)
    assert (found.low, found.high) == pytest.approx((10 - draws.max() * ERROR, 10 - draws.min() * ERROR))


def test_the_bootstrap_agrees_with_t_for_a_symmetric_sample() -> None:
    influence = np.random.default_rng(0).normal(size=400)
    estimate = Estimate("normal", 1.0, influence - influence.mean())
    drawn, t = interval(estimate, method="bootstrap", resamples=4000), interval(estimate)
    assert (drawn.low, drawn.high) == pytest.approx((t.low, t.high), abs=0.1 * estimate.standard_error)


def test_the_bootstrap_reaches_further_where_the_tail_is() -> None:
    influence = np.random.default_rng(0).exponential(size=60)
    estimate = Estimate("skewed", 1.0, influence - influence.mean())
    found = interval(estimate, method="bootstrap")
    assert found.high - 1 > 1.2 * (1 - found.low)


def test_a_draw_is_the_mean_over_its_standard_error() -> None:
    rng = np.random.default_rng(1)
    drawn = FOUR.influence[rng.integers(4, size=(50, 4), dtype=np.int32)]
    error = drawn.std(axis=1, ddof=1) / 2
    expected = np.divide(drawn.mean(axis=1), error, out=np.zeros(50), where=error > 0)
    assert studentized_draws(FOUR.influence, 50, seed=1) == pytest.approx(expected)


def test_the_bootstrap_is_deterministic_by_seed_and_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    once = studentized_draws(FOUR.influence, 100, seed=1)
    monkeypatch.setattr("rl_base.evaluation.intervals.MAX_DRAWS_AT_ONCE", 40)
    assert (studentized_draws(FOUR.influence, 100, seed=1) == once).all()
    assert (studentized_draws(FOUR.influence, 100, seed=2) != once).any()


def test_one_cluster_says_nothing_and_equal_clusters_everything() -> None:
    one = Estimate("one", 3.0, np.zeros(1), span=1.0)
    equal = Estimate("equal", 3.0, np.zeros(9))
    for method in ("t", "normal", "bootstrap"):
        assert (interval(one, method=method).low, interval(one, method=method).high) == (-math.inf, math.inf)
        assert (interval(equal, method=method).low, interval(equal, method=method).high) == (3.0, 3.0)
    assert interval(one, method="bernstein").low == -math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 95}, "level is 95: choose a confidence between 0 and 1"),
        ({"level": 1.0}, "level is 1.0"),
        ({"method": "wald"}, "method='wald', side='both': choose from"),
        ({"side": "left"}, "side='left': choose from"),
    ],
)
def test_unknown_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interval(FOUR, **options)


@pytest.mark.parametrize("tail", [0.025, 0.1])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0, 20.0])
def test_the_anytime_bound_is_where_a_mixture_of_likelihood_ratios_reaches_one_over_the_tail(
    tail: float, ratio: float
) -> None:
    """Half-normal over effects above zero: the mixture, a martingale without effect, stays below that but for a chance of `tail`."""
    z, wider = anytime_quantile(tail, ratio), 1 + ratio**2
    over = z * ratio / math.sqrt(wider)
    mixture = 2 / math.sqrt(wider) * math.exp(over**2 / 2) * NormalDist().cdf(over)
    assert 1 / tail <= mixture < 1 / tail + 2 / math.sqrt(wider)  # the closed form is a little wide


def test_the_anytime_bound_holds_at_all_looks_together_and_a_fixed_one_does_not() -> None:
    rng = np.random.default_rng(0)
    count = np.arange(20, 2_001, 20)  # rows at 100 looks, standard deviation 1
    means = rng.normal(size=(4_000, 100, 20)).sum(axis=2).cumsum(axis=1) / count
    errors = 1 / np.sqrt(count)
    anytime = np.array([anytime_quantile(0.05, 0.1 / error) for error in errors])
    crossed, peeked = ((means / errors > bound).any(axis=1).mean() for bound in (anytime, 1.645))
    assert 0.005 < crossed < 0.05
    assert peeked > 0.2


def test_an_anytime_interval_is_a_t_interval_of_a_smaller_tail() -> None:
    influence = np.random.default_rng(0).normal(size=400)
    estimate = Estimate("mean", 0.3, influence - influence.mean())
    found = interval(estimate, method="anytime", scale=0.2)
    tail = NormalDist().cdf(-anytime_quantile(0.025, 0.2 / estimate.standard_error))
    plain = interval(estimate, level=1 - 2 * tail)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))
    assert found.low < interval(estimate).low
    with pytest.raises(ValueError, match="scale is 0"):
        interval(estimate, method="anytime", scale=0)


def test_the_longer_tail_moves_its_end_out_by_edgeworths_term() -> None:
    influence = np.array([-1.0] * 90 + [9.0] * 10)
    estimate = Estimate("mean", 2.0, influence)
    plain, skewed = (interval(estimate, method="normal", skewed=skewed) for skewed in (False, True))
    skewness = (0.9 * -1 + 0.1 * 729) / 3.0**3
    z = NormalDist().inv_cdf(0.975)
    assert skewed.low == plain.low
    assert skewed.high - plain.high == pytest.approx(estimate.standard_error * (2 * z**2 + 1) * skewness / 60)
    mirrored = interval(Estimate("mean", -2.0, -influence), method="normal", skewed=True)
    assert (mirrored.low, mirrored.high) == pytest.approx((-skewed.high, -skewed.low))


def test_the_end_beyond_the_longer_tail_misses_less_often_with_the_correction() -> None:
    rng = np.random.default_rng(0)
    missed = {False: 0, True: 0}
    for _ in range(2_000):
        values = rng.exponential(size=40) ** 1.5
        estimate = Estimate("mean", float(values.mean()), values - values.mean())
        for skewed in missed:
            missed[skewed] += interval(estimate, skewed=skewed).high < 1.3293403881791370
    assert missed[True] < 0.8 * missed[False]
    assert missed[True] / 2_000 < 0.075


@pytest.mark.parametrize("method", ["t", "normal", "anytime", "bootstrap"])
def test_rounding_errors_are_no_spread(method: Method) -> None:
    """Terms that differ in their last digit: the value is known, where a quantile of such errors would be without limit."""
    noise = 1e-17 * np.random.default_rng(0).normal(size=200)
    found = interval(Estimate("x", 0.2, noise), method=method, skewed=True)
    assert found.high - found.low < 1e-15
