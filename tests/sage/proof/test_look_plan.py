from dataclasses import replace
from statistics import NormalDist

import pytest

from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.proof.look_ledger import enter_look, read_plan
from sage.proof.look_plan import LookPlan, LookPlanError
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import made_log

QUARTERS = LookPlan(final_rows=1_000, earlier=(250, 500))


def test_looks_have_the_boundaries_of_their_share_of_the_rows():
    """Four equal looks of a one-sided .025; the third is at 2.359 standard errors."""
    assert QUARTERS.boundary(750, 0.025) == pytest.approx(2.359, abs=1e-3)
    assert QUARTERS.level(750, 0.95) == pytest.approx(2 * NormalDist().cdf(2.359) - 1, abs=1e-5)
    assert LookPlan(final_rows=1_000).level(1_000, 0.95) == pytest.approx(0.95)
    assert QUARTERS.told(750) == "planned look 3, 750 of 1,000 rows"


def test_a_look_comes_with_more_rows_and_none_after_the_last():
    with pytest.raises(LookPlanError, match="this planned look has 500 rows, and the one before had 500"):
        QUARTERS.boundary(500, 0.025)
    with pytest.raises(LookPlanError, match="the last planned look was taken at 1,200 rows"):
        LookPlan(final_rows=1_000, earlier=(250, 1_200)).boundary(1_300, 0.025)
    with pytest.raises(LookPlanError, match="final_rows=0 must be a whole number above 0"):
        LookPlan(final_rows=0)


@pytest.fixture(scope="module")
def judged():
    """Evaluates the first rows of a growing log at a look of a plan."""
    log = made_log(3_000)
    policy = learn_doubly_robust(made_log(1_000, seed=1))

    def evaluate(rows, plan):
        return evaluate_offline(log.select(slice(rows)), policy, floor=0.5, plan=plan)

    return evaluate


def test_a_planned_interval_is_a_t_interval_at_the_level_of_its_look(judged):
    plan = LookPlan(final_rows=2_000, earlier=(500,))
    found, level = judged(1_000, plan), plan.level(1_000, 0.95)
    once = judged(1_000, None)
    assert (found.report.interval.method, found.report.interval.level, found.method) == ("planned", 0.95, "planned")
    assert level == pytest.approx(0.9967, abs=1e-3)
    assert found.report.value == once.report.value
    assert "at 97.5 % at planned look 2, 1,000 of 2,000 rows" in decide(found).reason
    last = judged(2_000, LookPlan(final_rows=2_000, earlier=(1_000,)))
    anytime = judged(2_000, None)
    assert anytime.report.interval.low < last.report.interval.low < last.report.value


def test_the_ledger_fixes_the_plan_at_the_first_look(judged, tmp_path):
    db, name = tmp_path / "sage.db", None
    first = judged(500, LookPlan(final_rows=2_000))
    name = (first.policy, first.policy_version)
    assert read_plan(db, name, None, "any") is None
    assert read_plan(db, name, 2_000, "any") == LookPlan(final_rows=2_000)
    assert enter_look(db, first) == 1
    assert read_plan(db, name, None, first.data_sha256) == LookPlan(final_rows=2_000)  # the same question again
    plan = read_plan(db, name, None, "more")
    assert plan == LookPlan(final_rows=2_000, earlier=(500,))
    with pytest.raises(
        LookPlanError, match=r"final_rows=1000 is not the plan of .*: 2,000 was fixed at its first look"
    ):
        read_plan(db, name, 1_000, "more")
    second = judged(1_000, plan)
    with pytest.raises(LookPlanError, match=r"floor=0.9 is not what the looks at .* were planned with \(0.5\)"):
        enter_look(db, replace(second, floor=0.9))
    with pytest.raises(
        LookPlanError, match=r"first row='late' is not what .* whole log, with all the rows of the looks before"
    ):
        enter_look(db, replace(second, first_row="late"))
    with pytest.raises(LookPlanError, match="are planned, final_rows=2,000"):
        enter_look(db, replace(second, plan=None))
    assert enter_look(db, second) == 2
    with pytest.raises(LookPlanError, match="was taken at the same time"):
        enter_look(db, replace(second, data_sha256="others"))


def test_a_plan_comes_before_the_first_look(judged, tmp_path):
    found = judged(500, None)
    enter_look(tmp_path / "sage.db", found)
    with pytest.raises(LookPlanError, match=r"final_rows=900: .* has been looked at before \(1 looks\)"):
        read_plan(tmp_path / "sage.db", (found.policy, found.policy_version), 900, "more")
