from dataclasses import replace

import pytest

from rl_training.evaluation import Interval
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.evaluation import evaluate_offline
from sage.rl.gate import decide
from tests.sage.rl.made_logs import made_log


@pytest.fixture(scope="module")
def found():
    log = made_log(2_000)
    return evaluate_offline(log, learn_doubly_robust(log.split_by_task(0.6, 0)[0]), floor=0.5)


@pytest.mark.parametrize(("low", "promote"), [(-0.001, False), (0.0, False), (0.001, True)])
def test_the_lower_bound_decides_not_the_estimate(found, low, promote):
    assert found.report.value > 0
    report = replace(found.report, interval=Interval(low, 0.3, 0.95, "t"))
    verdict = decide(replace(found, report=report))
    assert verdict.promote is promote
    assert verdict.exit_code == (0 if promote else 3)
    assert ("not above zero" in verdict.reason) is not promote


def test_the_bound_is_the_low_end_of_a_95_percent_interval(found):
    assert found.report.interval.level == 0.95
    assert found.report.interval.method == "t"
    assert found.report.estimator == "doubly robust"
