"""A tenant's budget holds, whoever calls at the same time: what a call may cost is reserved before it is made."""

from __future__ import annotations

import multiprocessing
import random
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sage import DecisionLog, Router
from sage.log.budget_settings import TenantBudget, day_of
from sage.log.compaction import erase
from sage.log.decision_log import OverBudgetError
from sage.log.records import Request
from sage.log.spending import Budgets
from sage.orchestrator.guard import BudgetSpentError, Serving
from tests.sage.examples import decision, outcome, written
from tests.sage.orchestrator.test_fail_open import full

# An answer of 1,000 tokens costs 0.001, 0.015 and 0.075 USD at most; a call without text costs nothing else.
DEAR = "exploration: 0.9\n"
DAY = 86_400.0


def opened(folder: Path, extra: str = DEAR) -> Router:
    return Router.open(
        folder / "sage.db", models=written(folder, extra), environment={}, seed=0, data_source="synthetic"
    )


def serving(usd: float, **changes: object) -> Serving:
    changes = {"budget": TenantBudget(usd=usd, per="total"), "most_output_tokens": 1000} | changes
    return Serving(**changes)  # pyrefly: ignore


def spend(router: Router, usd: float, seed: int, costs: list[float]) -> None:
    """Calls until the budget is spent; every call costs less than it may, some by much."""
    chance = random.Random(seed)
    while True:
        try:
            made = router.route(role="coder", tenant="team", session=str(seed), serving=serving(usd))
        except BudgetSpentError:
            return
        cost = made.expected_cost_usd * chance.uniform(0.1, 1.0)
        if chance.random() < 0.02:
            costs.append(made.expected_cost_usd)  # whose cost nobody ever learns
            continue
        costs.append(cost)
        router.outcome(made.id, cost_usd=cost)


def spend_in_threads(folder: Path, usd: float, seed: int, results: multiprocessing.SimpleQueue) -> None:
    costs: list[float] = []
    with opened(folder) as router:
        threads = [threading.Thread(target=spend, args=(router, usd, seed * 10 + i, costs)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    results.put(costs)


def test_processes_and_threads_together_never_exceed_a_budget(tmp_path: Path) -> None:
    usd = 0.5
    opened(tmp_path).close()
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    processes = [context.Process(target=spend_in_threads, args=(tmp_path, usd, i, results)) for i in range(3)]
    for process in processes:
        process.start()
    costs = [cost for _ in processes for cost in results.get()]
    for process in processes:
        process.join()
    assert sum(costs) <= usd
    assert sum(costs) > usd - 0.001  # what is left pays not even the cheapest call
    with closing(DecisionLog(tmp_path / "sage.db")) as log:
        assert log.tenant_spent("team", TenantBudget(usd=usd, per="total"), 0.0) == pytest.approx(sum(costs))
        assert len(list(log.rows())) == len(costs)


def test_at_the_end_cheaper_models_are_left_or_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        for usd, names in ((1.0, ("small", "medium", "large")), (0.07, ("small", "medium")), (0.002, ("small",))):
            made = router.route(role="coder", tenant=f"t{usd}", serving=serving(usd))
            assert made.candidates == names
            assert made.verdict == "ok"
        with pytest.raises(BudgetSpentError, match=r"budget of 0.0005 USD in total has 0.0005 USD left"):
            router.route(role="coder", tenant="poor", serving=serving(0.0005))
        refusing = TenantBudget(usd=0.07, at_end="refuse", per="day")
        with pytest.raises(BudgetSpentError, match="per day"):
            router.route(role="coder", tenant="strict", serving=serving(0.0, budget=refusing))


def test_a_limit_of_the_answer_makes_dearer_models_affordable(tmp_path: Path) -> None:
    with opened(tmp_path, "") as router:
        assert router.route(role="planner", tenant="a", serving=serving(0.02)).candidates == ("small", "medium")
        short = router.route(role="planner", tenant="a", serving=serving(0.02, most_output_tokens=10))
        assert short.candidates == ("small", "medium", "large")
        # 4,000 characters are at most as many tokens, at 0.5 USD a million, and 10 of the answer at 1 USD
        long = router.route(role="debugger", tenant="b", serving=serving(1.0, tokens=1000.0, most_output_tokens=10))
        assert long.model == "medium"
        assert long.expected_cost_usd == pytest.approx(4000 * 3e-6 + 10 * 15e-6)


def test_models_have_limits_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace("latency_s: 5}", "latency_s: 5, max_output_tokens: 200}"))
    with Router.open(tmp_path / "sage.db", models=path, environment={}) as router:
        made = router.route(role="debugger", tenant="a", serving=serving(1.0, most_output_tokens=None))
        assert (made.model, made.expected_cost_usd) == ("medium", pytest.approx(200 * 15e-6))
        made = router.route(role="coder", tenant="a", serving=serving(1.0, most_output_tokens=None))
        assert (made.model, made.expected_cost_usd) == (
            "small",
            pytest.approx(4 * 1000 * 1e-6),
        )  # where nobody knows one


def test_a_dearer_fallback_reserves_what_it_may_cost_more(tmp_path: Path) -> None:
    request, given = Request(role="coder", tenant="team"), serving(0.1)
    with opened(tmp_path, "") as router:
        first = router.route(role="coder", tenant="team", serving=given)
        assert first.model == "small"
        assert router.reserve(first, "large", request, given)
        assert router.log.tenant_spent("team", given.budget, 0.0) == pytest.approx(0.075)
        second = router.route(role="coder", tenant="team", serving=given)
        assert not router.reserve(second, "large", request, given)  # another 0.075 is not left
        assert router.reserve(second, "medium", request, given)
        router.outcome(first.id, cost_usd=0.05, model="large")
        router.outcome(second.id, cost_usd=0.0)
        assert router.log.tenant_spent("team", given.budget, 0.0) == pytest.approx(0.05)
        assert router.reserve(first, "large", request, Serving())  # without a budget there is nothing to reserve


def test_while_the_log_cannot_be_written_no_budget_is_spent(tmp_path: Path) -> None:
    free = "  free: {input_usd_per_mtok: 0, output_usd_per_mtok: 0, roles: [planner]}\nroles:"
    path = written(tmp_path)
    path.write_text(path.read_text().replace("roles:\n  default", f"{free}\n  default", 1))
    with Router.open(tmp_path / "sage.db", models=path, environment={}) as router:
        router.route(role="coder", tenant="team", serving=serving(1.0))
        with full(router):
            with pytest.raises(BudgetSpentError, match="the log cannot be written"):
                router.route(role="coder", tenant="team", serving=serving(1.0))
            unlogged = router.route(role="planner", tenant="team", serving=serving(1.0))
            assert (unlogged.model, unlogged.logged) == ("free", False)
            assert not router.reserve(unlogged, "medium", Request(role="planner", tenant="team"), serving(1.0))
            assert router.route(role="coder", tenant="other").model == "small"  # nobody else has to wait


def test_periods_are_those_of_the_calendar(log: DecisionLog) -> None:
    january = 1_767_225_600.0  # 2026-01-01, 00:00 UTC
    assert day_of(january) == "2026-01-01"
    for number, at in enumerate((january - 1, january, january + DAY, january + 31 * DAY)):
        log.append(decision(str(number), time=at, expected_cost_usd=2.0**number))
    for per, spent in (
        ("day", 4.0 + 8.0),
        ("month", 2.0 + 4.0 + 8.0),
        ("total", 15.0),
    ):  # clocks may differ: later ones count
        assert log.tenant_spent("default", TenantBudget(usd=1.0, per=per), january + DAY) == spent
    assert log.tenant_spent("another", TenantBudget(usd=1.0), january) == 0.0


def test_a_tenants_spending_stays_when_its_records_are_erased(log: DecisionLog) -> None:
    budget = Budgets(tenant=TenantBudget(usd=1.0, per="total"))
    log.append(decision("a", tenant="team", expected_cost_usd=0.5), budgets=budget)
    log.append(decision("b", tenant="other", expected_cost_usd=0.5), budgets=budget)
    log.reserve(decision("a", tenant="team"), 0.75, budgets=budget)
    erase(log, tenant="team")
    assert log.tenant_spent("team", budget.tenant, 0.0) == 0.75
    assert log.tenant_spent("other", budget.tenant, 0.0) == 0.5
    with pytest.raises(OverBudgetError, match=r"0.25 USD left"):
        log.append(decision("c", tenant="team", expected_cost_usd=0.5), budgets=budget)


def test_costs_and_corrections_replace_what_was_reserved(log: DecisionLog) -> None:
    budget = TenantBudget(usd=9.0, per="total")
    log.append(decision("a", expected_cost_usd=0.5), budgets=Budgets(tenant=budget))
    assert log.tenant_spent("default", budget, 0.0) == 0.5
    log.add_outcome(outcome("a", cost_usd=0.125))
    assert log.tenant_spent("default", budget, 0.0) == 0.125
    log.join(outcome("a", quality=None, cost_usd=2.0), correction=True)
    assert log.tenant_spent("default", budget, 0.0) == 2.0
