"""Steps of cascades: what a record of one can be, and how the log keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage.evidence.export_dataset import export
from sage.evidence.export_file import write_records
from sage.evidence.routing_data import RoutingData, RoutingDataError
from sage.log.cascade_steps import Attempt, Step, Verdict, taken, together
from sage.log.compaction import erase
from sage.log.decision_log import DecisionLog, LogError
from sage.log.joining import Known, merge
from sage.log.record_checks import RecordError
from sage.log.records import Decision, Outcome
from tests.sage.examples import decision, outcome


def said(word: str, verifier: str = "tests", source: str = "") -> Verdict:
    return Verdict(verifier=verifier, verdict=word, source=source)


def attempt(word: str, **changes: object) -> Attempt:
    return Attempt(**{"decision_id": "d", "model": "small", "verdicts": (said(word),)} | changes)


def first(**changes: object) -> Decision:
    return decision("a", cascade=Step(cascade_id="c", number=0), **changes)


def second(**changes: object) -> Decision:
    step = Step(cascade_id="c", number=1, attempts=(attempt("failed", decision_id="a", cost_usd=0.5),))
    return decision("b", **{"candidates": ("large", "stop"), "model": "large", "cascade": step} | changes)


def stop(number: int = 1) -> Decision:
    step = Step(cascade_id="c", number=number, attempts=(attempt("passed"),) * number)
    return decision("c", candidates=("large", "stop"), model="stop", cascade=step)


@pytest.mark.parametrize(
    ("words", "all_together"),
    [
        ((), "unknown"),
        (("unknown",), "unknown"),
        (("unknown", "passed"), "passed"),
        (("passed", "failed", "unknown"), "failed"),
    ],
)
def test_verdicts_of_several_verifiers(words: tuple[str, ...], all_together: str) -> None:
    assert together([said(word) for word in words]) == all_together


@pytest.mark.parametrize(
    ("attempts", "answer"),
    [
        ([attempt("failed"), attempt("failed")], 1),
        ([attempt("passed"), attempt("failed")], 0),
        ([attempt("passed"), attempt("passed")], 1),
        ([attempt("unknown"), attempt("passed", timed_out=True)], 0),
        ([attempt("passed", timed_out=True)], 0),
    ],
)
def test_the_answer_that_is_taken(attempts: list[Attempt], answer: int) -> None:
    assert taken(attempts) == answer


def test_records_come_back_equal_and_others_are_as_before() -> None:
    for made in (first(), second(), stop()):
        assert Decision.from_json(json.loads(json.dumps(made.to_json()))) == made
    report = outcome(verdicts=(said("passed", source="ruff 1"), said("unknown", "judge")))
    assert Outcome.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert "cascade" not in decision().to_json()  # what is no cascade reads as it did
    assert "verdicts" not in outcome().to_json()
    assert second().cascade.cost_usd == 0.5  # pyrefly: ignore


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: said("yes"), "verdict='yes' of tests must be one of passed, failed, unknown"),
        (lambda: said("passed", ""), "verifier='' must be 1 to 200 characters"),
        (lambda: outcome(verdicts=(said("passed"), said("failed"))), "two of one verifier"),
        (lambda: Step(cascade_id="c", number=2), "number=2 of a step with 0 attempts"),
        (lambda: Step(cascade_id="", number=0), "cascade_id='' must be"),
        (lambda: second(model="stop"), "id='b' chooses 'stop'"),
        (lambda: Step.from_json({"cascade_id": "c", "number": 0, "depth": 1}), "'depth' is not a field of a step"),
        (lambda: Step.from_json({"cascade_id": "c", "number": 1, "attempts": 7}), "attempts=7 must be a list"),
    ],
)
def test_what_cannot_be_true_is_refused(make: object, sentence: str) -> None:
    with pytest.raises(RecordError, match=sentence):
        make()  # pyrefly: ignore


def test_verdicts_join_by_verifier() -> None:
    known = outcome(verdicts=(said("unknown"), said("passed", "lint")))
    merged = merge(
        Known.first(known), outcome(verdicts=(said("failed"), said("passed", "lint", "again"), said("passed", "types")))
    )
    assert merged.known.outcome.verdicts == (said("failed"), said("passed", "lint"), said("passed", "types"))
    assert (merged.new, merged.conflicts) == (("verdicts",), ())
    against = merge(merged.known, outcome(verdicts=(said("passed"), said("passed", "judge"))))
    assert against.conflicts == ("verdicts",)
    assert [verdict.verdict for verdict in against.known.outcome.verdicts] == ["failed", "passed", "passed", "passed"]
    corrected = merge(merged.known, outcome(verdicts=(said("passed"),)), correction=True)
    assert corrected.known.outcome.verdicts == (said("passed"), said("passed", "lint"), said("passed", "types"))


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    return DecisionLog.open(tmp_path / "sage.db")


def test_a_cascade_is_read_by_its_id_and_every_step_is_decided_once(log: DecisionLog) -> None:
    log.append_many([decision("other"), first(), second()])
    assert log.add_outcome(outcome("a", verdicts=(said("failed", source="token=abcdefghijkl"),))) == "joined"
    assert log.add_outcome(outcome("c")) == "unknown"  # not stopped yet
    with pytest.raises(LogError, match="step 1 of cascade 'c' is logged already"):
        log.append(stop())
    assert [made for made, _ in log.rows()] == [decision("other"), first(), second()]
    log.append(stop(2))
    steps = log.cascade("c")
    assert [made.id for made, _ in steps] == ["a", "b", "c"]
    assert steps[0][1].verdicts[0].verdict == "failed"  # pyrefly: ignore
    assert "abcdefghijkl" not in str(steps[0][1])
    assert steps[2][1] == outcome("c")
    assert log.cascade("other") == []


def test_erasing_takes_the_steps(log: DecisionLog) -> None:
    log.append_many([first(task_id="t"), second(task_id="t"), decision("other")])
    assert erase(log, task="t").records.decisions == 2
    assert log.cascade("c") == []
    log.append(first())  # another one of that id would be the first
    assert len(log.cascade("c")) == 1


def test_steps_do_not_enter_single_decisions(log: DecisionLog, tmp_path: Path) -> None:
    log.append_many([first(), second(), stop(2), *(decision(f"single-{i}") for i in range(3))])
    log.add_outcomes([outcome(name) for name in ("a", "b", "c", "single-0", "single-1", "single-2")])
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.rows, done.steps_of_cascades) == (3, 3)
    assert len(RoutingData.read(tmp_path / "rows.jsonl")) == 3
    write_records(tmp_path / "steps.jsonl", log.cascade("c"))
    with pytest.raises(RoutingDataError, match=r"line 1: decision 'a' is a step of a cascade"):
        RoutingData.read(tmp_path / "steps.jsonl")
