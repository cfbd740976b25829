"""A second model that a decision asks for: drawn with its logged probability, and its outcome kept beside the first one's."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from sage import Router
from sage.cli import main
from sage.evidence.export_dataset import export
from sage.evidence.routing_data import RoutingData
from sage.log.compaction import erase
from sage.log.database import FORMAT
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome, RecordError
from sage.report.report import summarize
from tests.sage.examples import decision, outcome, written
from tests.sage.log.test_decision_log import stored

ASKED = {"shadow": "large", "shadow_probabilities": (0.02, 0.1)}


def of_shadow(decision_id: str = "d1", **fields: object) -> Outcome:
    told = outcome(decision_id, **{"quality": None} | fields)
    return Outcome(decision_id=decision_id, time=told.time, shadow=told)


def test_shadows_come_with_the_probability_that_is_logged(tmp_path: Path) -> None:
    table = written(tmp_path, "exploration: {share: 0.3, shadow: 0.4, among: [small, medium]}\n")
    with Router.open(tmp_path / "sage.db", models=table, seed=1, environment={}) as router:
        made = [router.route(role="coder", task="a", task_id=str(i)) for i in range(2_000)]
        assert list(router.log.rows()) == [(one, None) for one in made]
    drawn = Counter((one.model, one.shadow) for one in made)
    # small answers in .85, and .4 of the answers of either of the two have the other one in the shadow.
    assert set(drawn) == {("small", None), ("medium", None), ("small", "medium"), ("medium", "small")}
    assert drawn["small", "medium"] / 2_000 == pytest.approx(0.85 * 0.4, abs=0.03)
    assert drawn["medium", "small"] / 2_000 == pytest.approx(0.15 * 0.4, abs=0.02)
    chances = dict(zip(made[0].candidates, made[0].shadow_probabilities or (), strict=True))
    assert chances == pytest.approx({"small": 0.15 * 0.4, "medium": 0.85 * 0.4, "large": 0.0})
    assert "in the shadow: medium" in next(one.reason for one in made if one.shadow == "medium")


def test_both_outcomes_are_kept_apart_and_only_the_first_is_charged(log: DecisionLog) -> None:
    log.append(decision(**ASKED, session="s"))
    said = [
        log.add_outcome(report)
        for report in (
            outcome(quality=1.0, cost_usd=0.25),
            of_shadow(cost_usd=4.0),
            of_shadow(quality=0.5),
            of_shadow(quality=0.5),
            of_shadow(quality=0.0),
        )
    ]
    assert said == ["joined", "joined", "joined", "duplicate", "conflict"]
    ((made, joined),) = log.rows()
    assert made == decision(**ASKED, session="s")
    assert joined is not None
    assert (joined.quality, joined.cost_usd) == (1.0, 0.25)
    assert joined.shadow == outcome(quality=0.5, cost_usd=4.0)
    assert log.spent("default", "s") == 0.25
    shadows = summarize(str(log.path))["shadows"]
    assert (shadows["large"]["decisions"], shadows["large"]["total_cost_usd"]) == (1, 4.0)
    assert summarize(str(log.path))["total"]["total_cost_usd"] == 0.25
    log.join(of_shadow(quality=0.0), correction=True)
    (row,) = log.rows()
    assert row[1] is not None
    assert row[1].shadow == outcome(quality=0.0, cost_usd=4.0)


def test_an_outcome_of_a_shadow_that_was_not_asked_joins_nothing(log: DecisionLog, tmp_path: Path) -> None:
    log.append_many([decision(), decision("d2", **ASKED)])
    assert log.add_outcome(outcome()) == "joined"
    assert log.add_outcome(of_shadow(quality=1.0)) == "unknown"
    export(log, tmp_path / "rows.jsonl")
    assert RoutingData.read(tmp_path / "rows.jsonl").shadows is None


def test_erasure_takes_the_shadow_along(log: DecisionLog) -> None:
    log.append_many([decision("a", **ASKED, tenant="acme"), decision("b", **ASKED)])
    for name in ("a", "b"):
        log.add_outcome(of_shadow(name, quality=0.5, provenance=f"judge-of-{name}"))
    assert erase(log, tenant="acme").records == (1, 1)
    assert b"judge-of-a" not in log.path.read_bytes()
    ((_, left),) = log.rows()
    assert left is not None
    assert left.shadow == outcome("b", quality=0.5, provenance="judge-of-b")


def test_exported_rows_hold_shadows_also_where_the_first_outcome_is_missing(log: DecisionLog, tmp_path: Path) -> None:
    log.append_many([decision(name, **ASKED) for name in ("a", "b", "c")])
    log.add_outcome(outcome("a"))
    log.add_outcome(of_shadow("a", quality=0.25))
    log.add_outcome(of_shadow("b", quality=0.75))
    export(log, tmp_path / "rows.jsonl")
    data = RoutingData.read(tmp_path / "rows.jsonl", gaps=True)
    assert data.shadows is not None
    assert data.observed.tolist() == [True, False, False]
    assert [data.models[k] for k in data.shadows.action] == ["large"] * 3
    assert data.shadows.quality.tolist()[:2] == [0.25, 0.75]
    assert data.shadows.probability[0].tolist() == [0.1, 0.02]  # by name of the model: large, small
    data.write(tmp_path / "again.jsonl")
    assert RoutingData.read(tmp_path / "again.jsonl", gaps=True).sha256 == data.sha256


def test_the_commands_reach_shadows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = written(tmp_path, "exploration: {shadow: 1.0, among: [small, medium]}\n")
    places = ["--db", str(tmp_path / "sage.db"), "--models", str(table)]
    assert main(["route", "--role", "coder", "--task", "a", "--json", *places]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["model"], made["shadow"]) == ("small", "medium")
    assert main(["outcome", made["id"], "--quality", "1", "--cost", "2", "--shadow", *places]) == 0
    assert main(["outcome", made["id"], "--quality", "0", *places]) == 0
    assert capsys.readouterr().out.split() == ["joined", "joined"]
    with closing(DecisionLog.open(tmp_path / "sage.db")) as log:
        ((_, joined),) = log.rows()
        assert joined is not None
        assert joined.shadow is not None
        assert (joined.quality, joined.shadow.quality, joined.shadow.cost_usd) == (0.0, 1.0, 2.0)
    assert main(["route", "--role", "coder", "--task", "a", *places]) == 0
    assert "in the shadow medium: ask it too" in capsys.readouterr().out


def test_a_log_of_format_3_is_read_and_takes_shadows(tmp_path: Path) -> None:
    log = DecisionLog.open(stored(tmp_path / "sage.db", "log_format_3.sql"))
    before = list(log.rows())
    assert [(made.id, made.shadow, made.shadow_probabilities) for made, _ in before] == [
        (name, None, None) for name in ("whole", "open", "tried")
    ]
    assert before[0][1] == outcome("whole", source="operator", cost_usd=0.25)
    log.append(decision("new", **ASKED))
    assert log.add_outcome(of_shadow("new", quality=0.5)) == "joined"
    log.close()
    again = DecisionLog.open(log.path)
    assert list(again.rows())[:3] == before
    with closing(sqlite3.connect(log.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shadow": "large"}, "shadow_probabilities=None must give each"),
        (ASKED | {"shadow_probabilities": (0.5, 0.6)}, "add up to at most 1"),
        (ASKED | {"shadow": "small"}, "must be another candidate than 'small'"),
        (ASKED | {"shadow_probabilities": (0.1, 0.0)}, "with a probability above 0"),
    ],
)
def test_a_shadow_that_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decision(**changes)


def test_decisions_without_shadows_are_written_as_before() -> None:
    assert not {"shadow", "shadow_probabilities"} & decision().to_json().keys()
    assert "shadow" not in outcome().to_json()
    assert Decision.from_json(decision(**ASKED).to_json()) == decision(**ASKED)
