"""Calls of sessions that kept their model: they count with the decision that drew it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sage import Router
from sage.cli import main
from sage.evidence.export_dataset import export
from sage.evidence.held_calls import NOT_THERE, OF_A_CASCADE, UNPRICED, UNREPORTED, UNSEEN
from sage.evidence.routing_data import RoutingData
from sage.log.cascade_steps import Step
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.orchestrator.guard import Hold, Serving
from tests.sage.examples import TABLE, decision, outcome
from tests.sage.serve.answers import BODIES, CHAT, PATHS, table
from tests.sage.serve.scripted import call, proxy, whole


def drawn(name: str, **changes: object) -> Decision:
    return decision(name, **{"data_source": "real", "session": "s"} | changes)


def held(name: str, follows: str = "d0", **changes: object) -> Decision:
    given = {"candidates": ("small",), "probabilities": (1.0,), "verdict": "held", "follows": follows}
    return drawn(name, **given | changes)


def exported(tmp_path: Path, rows: list[tuple[Decision, Outcome | None]], **wanted: float):
    """What `export` says, and what training reads from the file."""
    with_log = DecisionLog.open(tmp_path / "sage.db")
    for made, told in rows:
        with_log.append(made)
        if told is not None:
            with_log.add_outcome(told)
    done = export(with_log, tmp_path / "rows.jsonl", **wanted)  # pyrefly: ignore
    with_log.close()
    return done, RoutingData.read(tmp_path / "rows.jsonl", gaps=True)


def told(name: str, **values: object) -> Outcome:
    return outcome(name, **{"quality": 1.0, "cost_usd": 0.25, "latency_s": 2.0} | values)


OTHER = (drawn("d9", session="t"), told("d9"))


def test_costs_add_up_and_qualities_are_averaged(tmp_path: Path) -> None:
    rows = [
        (drawn("d0"), told("d0", retries=1)),
        (held("h1"), told("h1", quality=0.5, latency_s=5.0)),
        (held("h2"), told("h2", quality=None, timed_out=True, cost_usd=0.5, retries=1)),
        OTHER,
    ]
    done, data = exported(tmp_path, rows)
    assert (done.rows, done.held_calls, done.missing, done.left_out) == (2, 2, {}, {})
    assert data.decision_id.tolist() == ["d0", "d9"]
    assert data.eligible.all()
    assert data.propensity[0].tolist() == [0.25, 0.75]
    assert (data.quality[0], data.cost_usd[0], data.latency_s[0], data.retries[0]) == (0.5, 1.0, 3.0, 2)


@pytest.mark.parametrize(
    ("first", "later", "reason"),
    [
        (told("d0"), None, UNREPORTED),
        (told("d0"), told("h1", quality=None), UNREPORTED),
        (told("d0", quality=None), told("h1"), UNSEEN),
        (None, told("h1"), "no outcome yet"),
        (told("d0"), told("h1", quality=None, timed_out=True, cost_usd=None), UNPRICED),
    ],
)
def test_an_outcome_is_missing_if_that_of_one_call_is(
    tmp_path: Path, first: Outcome | None, later: Outcome | None, reason: str
) -> None:
    done, data = exported(tmp_path, [(drawn("d0"), first), (held("h1"), later), OTHER])
    assert (done.rows, done.missing) == (1, {reason: 1})
    assert data.observed.tolist() == [False, True]


def test_calls_that_follow_nothing_in_the_file_are_left_out_and_counted(tmp_path: Path) -> None:
    step = drawn("c1", cascade=Step(cascade_id="c", number=0))
    rows = [
        (drawn("early", time=10.0), told("early")),
        (step, told("c1")),
        (held("h1", "gone"), told("h1")),
        (held("h2", "early"), told("h2")),
        (held("h3", "c1"), told("h3")),
        (drawn("d0"), told("d0")),
        (held("h4", time=5000.0), told("h4", cost_usd=0.5)),
        OTHER,
    ]
    done, data = exported(tmp_path, rows, since=100.0, until=2000.0)
    assert done.left_out == {NOT_THERE: 2, OF_A_CASCADE: 1}
    assert data.decision_id.tolist() == ["d0", "d9"]
    assert data.cost_usd[0] == 0.75  # with a call after `until`, which it led to


def test_logs_that_do_not_say_what_a_call_follows_are_read_in_the_order_of_the_session(tmp_path: Path) -> None:
    """As sage wrote them once: all candidates, probability 1, and no link."""
    before = {"candidates": ("small", "large"), "probabilities": (1.0, 0.0)}
    rows = [
        (held("h0", "", session="u", **before), told("h0")),  # whose drawn decision is erased
        (drawn("d0"), told("d0")),
        (drawn("x", tenant="another"), told("x", cost_usd=8.0)),
        (held("h1", "", **before), told("h1")),
        (drawn("d1", model="large"), told("d1", model="small")),  # its provider fell back
        (held("h2", "", **before), told("h2", cost_usd=4.0)),
    ]
    done, data = exported(tmp_path, rows)
    assert (done.held_calls, done.left_out) == (2, {})
    assert dict(zip(data.decision_id.tolist(), data.cost_usd.tolist(), strict=True)) == {
        "h0": 0.25,
        "d0": 0.5,
        "x": 8.0,
        "d1": 4.25,
    }
    assert data.eligible.sum(axis=1).tolist() == [1, 2, 2, 2]


def test_a_shadow_of_the_first_call_says_nothing_of_the_others(tmp_path: Path) -> None:
    asked = drawn("d0", shadow="large", shadow_probabilities=(0.1, 0.4))
    alone = drawn("d9", session="t", shadow="large", shadow_probabilities=(0.1, 0.4))
    rows = [
        (asked, told("d0", shadow=outcome("d0"))),
        (held("h1"), told("h1")),
        (alone, told("d9", shadow=outcome("d9"))),
    ]
    _, data = exported(tmp_path, rows)
    assert data.shadows is not None
    assert data.shadows.action.tolist() == [0, 0]
    assert [value == 1.0 for value in data.shadows.quality.tolist()] == [False, True]


def test_a_bandit_learns_nothing_from_a_model_that_was_not_chosen(tmp_path: Path) -> None:
    cached = TABLE.replace("medium: {", "medium: {cached_input_usd_per_mtok: 0.1, ") + "bandit: {kind: ucb1}\n"
    (tmp_path / "models.yaml").write_text(cached)
    kept = Serving(hold=Hold(model="medium", cached_tokens=1e6, gain_usd=0.0, follows="d0"))
    with Router.open(tmp_path / "sage.db", models=tmp_path / "models.yaml", environment={}) as router:
        assert router.bandit is not None
        made = router.route(role="coder", serving=kept)
        assert made.held
        router.outcome(made.id, quality=1.0)
        assert not router.bandit.current().statistics.cells  # pyrefly: ignore
        router.outcome(router.route(role="coder").id, quality=1.0)
        assert router.bandit.current().statistics.cells  # pyrefly: ignore


def test_a_better_policy_is_promoted_from_a_server_whose_sessions_keep_their_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`second` is better in every call. Every fifth session has another call, which stays with what it has."""
    answer = CHAT | {"usage": {"prompt_tokens": 100_000, "completion_tokens": 10}}
    explores = lambda url: table(url, serve="{affinity_usd: 0.001, retries: 0}", more="exploration: 1.0\n")  # noqa: E731
    with proxy(tmp_path, lambda _: whole(answer), explores) as served:
        served.application.state.logbook.router.random.seed(0)
        for session in range(150):
            body = BODIES["chat"] | {"messages": [{"role": "user", "content": f"{session} {'x' * 4_000}"}]}
            for _ in range(1 if session % 5 else 2):
                call(served, PATHS["chat"], body, session_id=f"s{session}")
        rows = served.logged()
    calls = [made for made, _ in rows]
    firsts = {made.session: made for made in reversed(calls)}
    linked = [(made.candidates, made.follows) for made in calls if made.held]
    assert linked == [((firsts[d.session].model,), firsts[d.session].id) for d in calls if d.held]
    assert len(linked) == 30
    log = DecisionLog(tmp_path / "sage.db")
    good = {"first": 0.2, "second": 0.9}
    worth = np.random.default_rng(0).random(len(calls)) < [good[made.model] for made in calls]
    log.add_outcomes([outcome(made.id, time=made.time, quality=float(q)) for made, q in zip(calls, worth, strict=True)])
    log.close()
    monkeypatch.chdir(tmp_path)
    assert main(["rl", "export", "--output", "rows.jsonl"]) == 0
    assert "held calls: 30" in capsys.readouterr().out
    assert main(["rl", "train-dr", "--data", "rows.jsonl", "--out", "p.bin", "--holdout", "0.8"]) == 0
    capsys.readouterr()
    assert main(["rl", "gate", "--data", "rows.jsonl", "--checkpoint", "p.bin", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["report"]["num_rows"] == 120
    assert found["report"]["value"] > 0.3
