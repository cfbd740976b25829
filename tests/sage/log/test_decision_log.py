"""The log keeps what it was told, once, whoever writes and whoever is killed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sage.log.budget_settings import TenantBudget
from sage.log.cascade_steps import Step
from sage.log.compaction import digest
from sage.log.database import FORMAT, DatabaseError
from sage.log.decision_log import LATE_AFTER_S, DecisionLog, LogError, OverBudgetError
from sage.log.records import Outcome
from sage.log.spending import Budgets
from sage.policies.bandits.bandit_store import BanditStore
from sage.policies.bandits.ucb_bandit import UCB1
from tests.sage.examples import decision, ids, outcome


def test_what_is_logged_comes_back_equal(log: DecisionLog) -> None:
    first = decision(prompt="do it", verdict="low_confidence", confidence=0.25, reason="why", session="s")
    log.append(first)
    known = outcome(cost_usd=0.5, latency_s=2.0, retries=1, tokens_in=3, provenance="tests")
    assert log.add_outcome(known) == "joined"
    assert list(DecisionLog.open(log.path).rows()) == [(first, known)]
    assert log.decision("d1") == first


def test_a_decision_without_outcome_is_a_row(log: DecisionLog) -> None:
    log.append(decision())
    assert list(log.rows()) == [(decision(), None)]
    assert log.counts()["without_outcome"] == 1


def test_late_duplicate_and_unknown_outcomes_are_kept_and_counted(log: DecisionLog) -> None:
    log.append_many([decision("a"), decision("b")])
    late = outcome("b", time=1000.0 + LATE_AFTER_S + 1)
    said = [log.add_outcome(o) for o in (outcome("a"), outcome("a", time=1020.0), late, outcome("nobody"))]
    assert said == ["joined", "duplicate", "late", "unknown"]
    counts = log.counts()
    assert [counts[status] for status in said] == [1, 1, 1, 1]
    assert (counts["decisions"], counts["with_outcome"], counts["synthetic"], counts["real"]) == (2, 2, 2, 0)
    assert [joined for _, joined in log.rows()] == [outcome("a"), late]


def test_a_correction_of_an_unknown_decision_corrects_nothing(log: DecisionLog) -> None:
    assert log.join(outcome("nobody"), correction=True).status == "unknown"
    assert log.join(outcome("nobody", quality=0.0), correction=True).status == "corrected"  # of what was reported


def test_an_outcome_that_overtook_its_decision_is_joined(log: DecisionLog) -> None:
    assert log.add_outcome(outcome()) == "unknown"
    log.append(decision())
    assert list(log.rows()) == [(decision(), outcome())]
    assert log.add_outcome(outcome(quality=0.0)) == "conflict"
    assert log.add_outcome(outcome()) == "duplicate"
    assert list(log.rows()) == [(decision(), outcome())]


def test_rows_are_selected_by_source_session_and_time(log: DecisionLog) -> None:
    log.append(decision("a", data_source="real", session="s", time=10.0))
    log.append(decision("b", data_source="replay", session="s", time=20.0))
    log.append(decision("c", data_source="real", session="t", time=30.0))
    assert ids(log, data_source="real") == ["a", "c"]
    assert ids(log, session="s") == ["a", "b"]
    assert ids(log, since=20.0) == ["b", "c"]
    assert ids(log, data_source="real", session="s", since=20.0) == []


def test_a_decision_is_logged_once(log: DecisionLog) -> None:
    log.append(decision())
    with pytest.raises(LogError, match="'d1' is logged already"):
        log.append(decision(model="large"))
    assert list(log.rows()) == [(decision(), None)]


def test_many_are_logged_all_or_none(log: DecisionLog) -> None:
    with pytest.raises(LogError, match="'a' is logged already"):
        log.append_many([decision("a"), decision("b"), decision("a")])
    assert ids(log) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decisions SET record = '{}'",
        "DELETE FROM decisions",
        "UPDATE outcomes SET status = 'joined'",
        "DELETE FROM outcomes",
    ],
)
def test_nothing_can_be_changed_afterwards(log: DecisionLog, statement: str) -> None:
    log.append(decision())
    log.add_outcome(outcome())
    with sqlite3.connect(log.path) as other, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(statement)


def test_nothing_can_be_replaced(log: DecisionLog) -> None:
    log.append(decision())
    log.add_outcome(outcome())
    with sqlite3.connect(log.path) as other:
        row = "(seq, id, time, data_source, tenant, session, record) VALUES"
        other.execute(f"INSERT OR REPLACE INTO decisions {row} (1, 'x', 1.0, 'real', '', '', '')")
        other.execute(f"INSERT OR REPLACE INTO decisions {row} (NULL, 'd1', 1.0, 'real', '', '', '')")
        other.execute(
            "INSERT OR REPLACE INTO outcomes (seq, decision_id, status, record) VALUES (1, 'x', 'joined', '')"
        )
    assert list(log.rows()) == [(decision(), outcome())]


@pytest.mark.parametrize("at", [0.0, 6400.0, 9990.0, 10_000.0, 1e9])
def test_a_clock_that_steps_loses_no_outcome(log: DecisionLog, at: float) -> None:
    log.append(decision(time=10_000.0))
    assert log.add_outcome(outcome(time=at, quality=None, cost_usd=0.5)) in ("joined", "late")
    assert log.add_outcome(outcome(time=20_000.0 - min(at, 20_000.0), quality=0.25)) == "joined"
    [(_, joined)] = log.rows()
    assert joined is not None
    assert (joined.cost_usd, joined.quality) == (0.5, 0.25)


def test_secrets_are_not_in_the_file(log: DecisionLog) -> None:
    secret = "sk-" + "a1B2" * 8
    log.append(decision(prompt=f"use\n{secret}", task_id=secret, session=secret, tenant=secret, reason=secret))
    log.add_outcome(outcome(provenance=secret, cost_usd=1.0))
    log.close()
    assert not [path for path in log.path.parent.iterdir() if secret.encode() in path.read_bytes()]
    assert log.spent(secret, secret) == 1.0


def test_spending_adds_up_by_session(log: DecisionLog) -> None:
    log.append_many([decision("a", session="s"), decision("b", session="s"), decision("c", session="t")])
    log.add_outcomes([outcome("a", cost_usd=0.25), outcome("b", cost_usd=0.5), outcome("c", cost_usd=8.0)])
    log.add_outcome(outcome("a", cost_usd=100.0))  # a duplicate costs nothing more
    assert log.spent("default", "s") == 0.75
    assert log.spent("default", "") == 0.0


def test_spending_follows_late_costs_corrections_and_reservations(log: DecisionLog) -> None:
    log.add_outcome(outcome("early", cost_usd=4.0))
    log.append(decision("early", session="s", expected_cost_usd=1.0))
    assert log.spent("default", "s") == 4.0  # an outcome that overtook its decision is charged with it
    log.append(decision("a", session="s", expected_cost_usd=0.5))
    assert log.spent("default", "s") == 4.5
    log.add_outcome(outcome("a"))
    assert log.spent("default", "s") == 4.5  # a quality alone says nothing of the cost
    log.add_outcome(outcome("a", quality=None, cost_usd=0.25))
    assert log.spent("default", "s") == 4.25
    log.join(outcome("a", quality=None, cost_usd=2.0), correction=True)
    assert log.spent("default", "s") == 6.0


def test_a_decision_that_a_budget_has_no_room_for_is_refused(log: DecisionLog) -> None:
    log.append(decision("a", expected_cost_usd=0.75), budgets=Budgets(1.0))
    with pytest.raises(OverBudgetError, match=r"small is expected to cost more than the 0.25 USD left"):
        log.append(decision("b", expected_cost_usd=0.5), budgets=Budgets(1.0))
    log.append(decision("c", expected_cost_usd=0.25), budgets=Budgets(1.0))
    assert ids(log) == ["a", "c"]


PARTS = {
    "quality": 0.25,
    "cost_usd": 0.5,
    "latency_s": 3.0,
    "retries": 2,
    "tokens_in": 9,
    "tokens_cached": 4,
    "tokens_out": 5,
    "provenance": "tests",
    "model": "large",
}


def part(*names: str, at: float = 1010.0, **changes: object) -> Outcome:
    return Outcome(**{"decision_id": "d1", "time": at} | {name: PARTS[name] for name in names} | changes)


@pytest.mark.parametrize("seed", range(20))
def test_parts_in_any_order_make_one_outcome(log: DecisionLog, seed: int) -> None:
    generator = random.Random(seed)
    names = sorted(PARTS)
    generator.shuffle(names)
    cuts = sorted(generator.sample(range(1, len(names)), 3))
    parts = [names[i:j] for i, j in pairwise([0, *cuts, len(names)])]
    parts += [generator.choice(parts)]  # one is sent again
    generator.shuffle(parts)
    when = generator.randrange(len(parts))
    statuses = []
    for number, fields in enumerate(parts):
        if number == when:
            log.append(decision())
        statuses.append(log.add_outcome(part(*fields, at=generator.uniform(0, 1e6))))
    [(_, joined)] = log.rows()
    assert joined == replace(part(*PARTS), time=joined.time)  # pyrefly: ignore
    assert log.counts()["with_outcome"] == 1
    assert "conflict" not in statuses
    assert statuses[:when] == ["unknown"] * when


def test_the_first_report_of_a_field_counts_and_conflicts_are_counted(log: DecisionLog) -> None:
    log.append(decision())
    said = [
        log.add_outcome(part("cost_usd")),
        log.add_outcome(part("cost_usd", "quality", cost_usd=7.0)),  # the quality is new, the cost is not
        log.add_outcome(part("quality", quality=1.0)),
        log.add_outcome(part(timed_out=True)),  # a quality was seen
        log.add_outcome(part(tokens_cached=9)),
        log.add_outcome(part(tokens_in=5)),  # fewer than were cached
    ]
    assert said == ["joined", "conflict", "conflict", "conflict", "joined", "conflict"]
    [(_, joined)] = log.rows()
    assert joined == part("cost_usd", "quality", tokens_cached=9)
    counts = log.counts()
    assert (counts["joined"], counts["conflict"]) == (2, 4)


def test_a_correction_replaces_and_the_log_keeps_both(log: DecisionLog) -> None:
    log.append(decision())
    log.add_outcome(part("quality", "cost_usd"))
    corrected = log.join(part(timed_out=True, at=2000.0), correction=True)
    assert corrected == ("corrected", part("quality", "cost_usd"), part("cost_usd", timed_out=True, at=2000.0))
    log.join(part("quality", quality=1.0, at=3000.0), correction=True)
    assert log.add_outcome(part("quality")) == "conflict"  # with the corrected value
    [(_, joined)] = log.rows()
    assert joined == part("quality", "cost_usd", quality=1.0, at=3000.0)
    counts = log.counts()
    assert (counts["corrected"], counts["joined"], counts["conflict"]) == (2, 1, 1)
    impossible = log.join(part(tokens_in=1, tokens_cached=1), correction=True)
    assert impossible.status == "corrected"
    assert log.join(part(tokens_cached=3), correction=True).status == "conflict"


def stored(path: Path, name: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))
    return path


def test_a_log_of_format_1_is_read_and_its_second_reports_count(tmp_path: Path) -> None:
    log = DecisionLog.open(stored(tmp_path / "sage.db", "log_format_1.sql"))
    rows = {made.id: (made, joined) for made, joined in log.rows()}
    assert list(rows) == ["whole", "in-two-parts", "corrected-by-a-second", "late", "silent", "early"]
    known = {name: joined and (joined.quality, joined.cost_usd) for name, (_, joined) in rows.items()}
    assert known == {
        "whole": (1.0, 0.25),
        "in-two-parts": (0.75, 0.5),  # format 1 called the quality a duplicate
        "corrected-by-a-second": (0.25, 2.0),  # the first quality stays
        "late": (None, None),
        "silent": None,
        "early": (0.5, 4.0),
    }
    assert rows["whole"][1] == outcome(
        "whole",
        source="operator",
        cost_usd=0.25,
        latency_s=2.0,
        retries=1,
        provenance="tests",
        tokens_in=9,
        tokens_cached=3,
        tokens_out=4,
    )
    assert log.spent("default", "s") == 0.25 + 0.5 + 2.0
    assert log.spent("default", "t") == 4.0
    assert log.add_outcome(outcome("silent", model="large")) == "joined"
    log.close()
    with closing(sqlite3.connect(log.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    again = DecisionLog.open(log.path)
    assert again.spent("default", "s") == 2.75  # charged once
    assert again.tenant_spent("default", TenantBudget(usd=1.0, per="total"), 0.0) == 2.75 + 4.0
    assert again.tenant_spent("default", TenantBudget(usd=1.0, per="day"), 1e9) == 0.0
    assert [joined and joined.model for _, joined in again.rows()][4] == "large"


def test_a_log_of_format_2_is_read_and_takes_steps_of_cascades(tmp_path: Path) -> None:
    log = DecisionLog.open(stored(tmp_path / "sage.db", "log_format_2.sql"))
    before = list(log.rows())
    assert [(made.id, made.cascade) for made, _ in before] == [("whole", None), ("open", None), ("fallback", None)]
    assert before[0][1] == outcome(
        "whole", source="operator", quality=0.5, cost_usd=0.25, latency_s=2.0, provenance="tests"
    )
    assert before[2][1] == outcome("fallback", source="operator", quality=0.0, cost_usd=1.0, model="large", time=1020.0)
    assert log.spent("default", "s") == 0.25 + 0.5 + 1.0
    assert log.counts()["unlogged"] == 3
    digested = digest(log, 4, 5)
    log.append(decision("first", cascade=Step(cascade_id="all", number=0)))
    assert digest(log, 4, 5) == digested
    log.close()
    again = DecisionLog.open(log.path)
    assert [made.id for made, _ in again.cascade("all")] == ["first"]
    assert list(again.rows())[:3] == before
    with closing(sqlite3.connect(log.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)


def test_a_bandit_that_comes_first_leaves_the_upgrade_to_the_log(tmp_path: Path) -> None:
    path = stored(tmp_path / "sage.db", "log_format_1.sql")
    assert BanditStore(path, UCB1()).bandit.statistics.count.sum() == 1
    assert DecisionLog.open(path).spent("default", "t") == 4.0


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="a database of another program"):
        DecisionLog.open(path)
    assert path.read_bytes() == before


def test_an_edited_record_is_named(log: DecisionLog) -> None:
    log.append(decision())
    with sqlite3.connect(log.path) as other:
        other.execute("DROP TRIGGER decisions_no_update")
        other.execute("UPDATE decisions SET record = '{}'")
    with pytest.raises(LogError, match="the log's decision d1 cannot be read"):
        list(log.rows())


def test_a_prompt_that_is_no_text_is_logged_with_marks(tmp_path: Path) -> None:
    with closing(DecisionLog.open(tmp_path / "sage.db")) as log:
        log.append(decision(prompt="caf\udce9"))
        assert log.decision("d1").prompt == "caf?"
