"""One decision path: whoever decides, a decision is prepared by the same function, which only moves the random stream."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sage import Decision, DecisionLog, Router
from sage.log.budget_settings import TenantBudget
from sage.log.cascade_steps import Step
from sage.log.database import SharedFile
from sage.log.decision_log import OverBudgetError
from sage.log.records import Request
from sage.log.spending import Budgets, Spent
from sage.orchestrator.guard import ANY, BudgetSpentError, Hold, Serving
from sage.orchestrator.model_router import Prepared
from sage.serve.logbook import Logbook
from tests.sage.examples import written
from tests.sage.orchestrator.fixed_policy import FixedPolicy

DRAWS = "exploration: {share: 0.6, shadow: 0.5}\n"
CASCADE = DRAWS + "cascade: {default: {ladder: [small, medium], verifiers: []}}\n"
TABLES = {
    "table": DRAWS,
    "budget": DRAWS + "guard: {budget_usd: 10}\n",
    "bandit": DRAWS + "bandit: contextual\n",
    "texts": DRAWS + "log: {store_prompts: true, store_words: true}\n",
}
TENANT = Serving(budget=TenantBudget(usd=1.0, per="total"), most_output_tokens=1000)


def opened(folder: Path, extra: str = DRAWS) -> Router:
    options: dict = {"models": written(folder, extra), "environment": {}, "seed": 0, "data_source": "synthetic"}
    return Router.open(folder / "sage.db", **options)


def without_id(decision: Decision) -> Decision:
    return replace(decision, id="x", time=0.0)


@contextmanager
def no_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it, nothing can be read or written."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a file was used")

    with monkeypatch.context() as patch:
        for owner, name in ((SharedFile, "_held"), (SharedFile, "reading"), (builtins, "open"), (os, "open")):
            patch.setattr(owner, name, fail)
        yield


def prepared(router: Router, number: int, **arguments: object) -> Prepared:
    request, contexts = router.seen(request_of(number))
    return router.prepare(request, contexts, **arguments)  # pyrefly: ignore


def request_of(number: int) -> Request:
    return Request(role=("coder", "debugger")[number % 2], task=f"fix number {number}", session=f"s{number % 3}")


@pytest.mark.parametrize("name", TABLES)
def test_the_same_state_and_seed_give_the_same_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with opened(tmp_path, TABLES[name]) as router:
        for number in range(6):  # there is something to know
            made = router.route(role="coder", task="x", session=f"s{number % 3}")
            router.outcome(made.id, quality=number % 2, cost_usd=0.01)
        state, counts = router.random.getstate(), router.log.counts()
        with no_files(monkeypatch):
            first = [prepared(router, number, spent=Spent(0.5)) for number in range(0, 80, 2)]
            after = router.random.getstate()
            router.random.setstate(state)
            second = [prepared(router, number, spent=Spent(0.5)) for number in range(0, 80, 2)]
        for one, other in zip(first, second, strict=True):
            assert (without_id(one.decision), one.budgets) == (without_id(other.decision), other.budgets)
        assert router.random.getstate() == after != state
        assert len({p.decision.id for p in first}) == 40
        assert len({p.decision.model for p in first}) > 1
        assert any(p.decision.shadow for p in first)
        assert router.log.counts() == counts


@pytest.mark.parametrize("name", TABLES)
def test_what_is_prepared_is_what_is_logged(tmp_path: Path, name: str) -> None:
    """The path of threads, the path of the event loop and `prepare` alone, each with the same seed."""
    for folder in "abc":
        (tmp_path / folder).mkdir()
    asked = [request_of(number) for number in range(30)]
    fields = [{"role": one.role, "task": one.task, "session": one.session} for one in asked]
    with opened(tmp_path / "a", TABLES[name]) as threads:
        made = [threads.route(**one) for one in fields]  # pyrefly: ignore
        assert [row for row, _ in threads.log.rows()] == made

    async def serve() -> list[Decision]:
        logbook = Logbook(opened(tmp_path / "b", TABLES[name]))
        decided = [await logbook.decide(one, ANY, if_left={}) for one in fields]  # pyrefly: ignore
        await logbook.close()
        return decided

    served = asyncio.run(serve())
    assert [row for row, _ in DecisionLog.open(tmp_path / "b" / "sage.db").rows()] == served
    with opened(tmp_path / "c", TABLES[name]) as alone:
        (tmp_path / "c" / "sage.db.task-key").write_bytes((tmp_path / "a" / "sage.db.task-key").read_bytes())
        spent = {f"s{i}": 0.0 for i in range(3)}
        for row, request in zip(made, asked, strict=True):
            alone.openings.open()
            decision, budgets = alone.prepare(*alone.seen(request), spent=Spent(spent[request.session]))
            assert without_id(decision) == without_id(row)
            assert budgets == Budgets(10.0 if name == "budget" else None)
            spent[request.session] += decision.expected_cost_usd or 0.0
    assert [without_id(replace(d, opening="")) for d in served] == [without_id(replace(d, opening="")) for d in made]


def test_steps_of_cascades_are_prepared_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, CASCADE) as router:
        step = Step(cascade_id="c" * 32, number=0, attempts=())
        with no_files(monkeypatch):
            state = router.random.getstate()
            first = [prepared(router, 0, step=step).decision for _ in range(20)]
            router.random.setstate(state)
            assert [without_id(prepared(router, 0, step=step).decision) for _ in range(20)] == list(
                map(without_id, first)
            )
        assert {decision.model for decision in first} == {"small", "medium"}
        router.random.setstate(state)
        logged = router.cascade(role="coder", task="fix number 0", session="s0").next()
    assert logged is not None
    assert (logged.model, logged.probabilities) == (first[0].model, first[0].probabilities)


def test_what_has_to_be_reserved_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, "guard: {budget_usd: 0.02}\n") as router:
        assert prepared(router, 1).budgets == Budgets(0.02)
        assert prepared(router, 1).decision.expected_cost_usd == pytest.approx(0.015, rel=0.01)
        over = prepared(router, 1, spent=Spent(session_usd=0.02))
        assert (over.decision.verdict, over.budgets) == ("over_budget", Budgets(None))  # it is answered all the same
        assert prepared(router, 1, serving=TENANT).budgets == Budgets(0.02, TENANT.budget)
        with pytest.raises(BudgetSpentError, match="has 0 USD left"):
            prepared(router, 1, serving=TENANT, spent=Spent(tenant_usd=1.0))


def test_a_decision_on_what_others_have_spent_meanwhile_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path, "guard: {budget_usd: 0.02}\n") as router:
        one, two = (prepared(router, 1) for _ in range(2))
        router.log.append(one.decision, budgets=one.budgets)
        with pytest.raises(OverBudgetError):
            router.log.append(two.decision, budgets=two.budgets)
        found = iter([Spent(0.0), Spent(0.015)])
        router.read = lambda *_: next(found)  # pyrefly: ignore (the first is what was true before `one`)
        made = router.route(role="debugger", task="fix number 1", session="s1")
    assert (one.decision.model, made.model, made.verdict) == ("medium", "small", "ok")
    assert next(found, None) is None


def test_an_event_loop_decides_where_nothing_has_to_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        assert not router.decides_at_once(ANY)  # the key of openings was not read yet
        router.route(role="coder", task="x")
        assert router.decides_at_once(ANY)
        assert router.decides_at_once(Serving(hold=Hold(model="small", cached_tokens=10.0, gain_usd=0.0)))
        assert not router.decides_at_once(TENANT)
        router.served = router.served._replace(policy=FixedPolicy({"small": 1.0}))
        assert not router.decides_at_once(ANY)
    for extra in (TABLES["budget"], TABLES["bandit"]):
        with opened(tmp_path, extra) as router:
            router.route(role="coder", task="x")
            assert not router.decides_at_once(ANY)
