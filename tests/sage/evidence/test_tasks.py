"""Tasks: rows that share an id or the first words of a user, in training, splits and proofs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sage import Router
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.routing_data import RoutingData
from sage.evidence.tasks import connected, task_hashes
from sage.log.openings import OpeningHasher
from sage.log.records import Decision, Outcome
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.evidence.cascades.test_cascade_data import attempt, episode, stop
from tests.sage.examples import written
from tests.sage.rl.made_logs import made_log


def test_rows_that_share_any_key_are_connected() -> None:
    rows = [[(0, "b")], [(0, "b"), (1, "x")], [(0, "a"), (1, "x")], [(1, "y")], [(0, "c"), (1, "z")], [(1, "y")]]
    assert connected(rows) == ["a", "a", "a", "y", "c", "y"]
    chain = [[(0, f"{i:03}"), (1, f"{i // 2}")] for i in range(100)] + [
        [(0, f"{i:03}"), (1, f"{(i + 1) // 2}")] for i in range(100)
    ]
    assert set(connected(chain)) == {"000"}


def rows_of(log: RoutingData, **changes: object) -> list[tuple[Decision, Outcome]]:
    return [(replace(made, **changes), told) for made, told in log.records()]


def copied(rows: list[tuple[Decision, Outcome]], times: int, **changes: object) -> RoutingData:
    """The rows again and again under new ids, as of other calls."""
    again = [
        (replace(d, id=f"{d.id}-{k}", task_id=f"{d.task_id}-{k}", **changes), replace(o, decision_id=f"{d.id}-{k}"))
        for k in range(times)
        for d, o in rows
    ]
    return RoutingData.from_records(again, gaps=True)


@pytest.fixture(scope="module")
def policy():
    return learn_doubly_robust(made_log(3_000, seed=9))


def test_copies_under_new_ids_prove_nothing_more(policy) -> None:
    few = [(replace(d, opening=f"{i:032x}"), o) for i, (d, o) in enumerate(rows_of(made_log(160, seed=3)))]
    once, often = (evaluate_offline(copied(few, times), policy, floor=0.5) for times in (1, 12))
    assert once.basis.tasks == often.basis.tasks == 160
    assert not decide(often).promote
    told_apart = copied([(replace(d, opening=""), o) for d, o in few], 12)
    assert not once.report.above_zero
    assert evaluate_offline(told_apart, policy, floor=0.5).report.above_zero  # what the openings prevent


def test_a_proof_says_how_its_tasks_were_told_apart(policy) -> None:
    rows = rows_of(made_log(600, seed=4))
    given = rows[:300]
    opened = [(replace(d, task_id="", opening=f"{i // 2:032x}"), o) for i, (d, o) in enumerate(rows[300:500])]
    neither = [(replace(d, task_id=""), o) for d, o in rows[500:]]
    found = evaluate_offline(RoutingData.from_records(given + opened + neither), policy, floor=0.5)
    assert found.basis.told_apart == {"id": 300, "first words": 200, "what the log kept of the text": 100}
    assert (found.basis.tasks, found.basis.largest) == (300 + 100 + 2, 50)  # nothing tells rows of a category apart
    assert str(found.basis) == (
        "402 tasks, told apart by id in 300 rows and by first words in 200 rows and by what the log kept of the text in 100 rows"
    )
    always = RoutingData.from_records([(replace(d, opening="0" * 32), o) for d, o in rows[:500]] + rows[500:])
    said = decide(evaluate_offline(always, policy, floor=0.5))
    assert not said.promote
    assert "500 rows are of one task" in str(evaluate_offline(always, policy, floor=0.5).basis)


def test_no_task_is_on_both_sides_of_a_split_or_judged_after_it_was_learned_from(policy) -> None:
    rows = [(replace(d, opening=f"{i % 50:032x}"), o) for i, (d, o) in enumerate(rows_of(made_log(200, seed=5)))]
    data = RoutingData.from_records(rows)
    train, rest = data.split_by_task(0.5, 0)
    assert not set(train.tasks.opening) & set(rest.tasks.opening)  # pyrefly: ignore
    learned = replace(
        policy, training=replace(policy.training, task_hashes=task_hashes(train.contexts.task_id, train.tasks))
    )
    later = RoutingData.from_records(
        [(replace(d, id=f"{d.id}-x", task_id=f"new-{d.id}"), o_of(o, f"{d.id}-x")) for d, o in rows]
    )
    assert evaluate_offline(later, learned, floor=0.5).left_out_rows == 100


def o_of(told: Outcome, name: str) -> Outcome:
    return replace(told, decision_id=name)


def test_records_come_back_with_their_keys(tmp_path: Path) -> None:
    rows = rows_of(made_log(4), task_id="", opening="f" * 32, tenant="team")
    data = RoutingData.from_records(rows)
    data.write(tmp_path / "rows.jsonl")
    again = RoutingData.read(tmp_path / "rows.jsonl")
    assert again.sha256 == data.sha256
    assert [d for d, _ in again.records()] == [d for d, _ in rows]
    assert set(again.contexts.task_id) == {"f" * 32}
    assert data.sha256 != RoutingData.from_records(rows_of(made_log(4), task_id="", opening="e" * 32)).sha256


def test_cascades_without_an_id_are_told_apart_by_their_openings() -> None:
    steps = attempt("small", True, "large"), stop("large")
    made = [
        replace(episode(*steps, name=name), task_id=name, opening=words)
        for name, words in zip("abcd", "xxyz", strict=True)
    ]
    named = replace(episode(*steps, name="e"), task_id="t", opening="z")
    data = CascadeData.from_episodes([*made, named])
    assert data.contexts.task_id.tolist() == ["x", "x", "y", "t", "t"]
    assert data.select(np.arange(5) > 2).tasks.told_apart == {"id": 1, "first words": 1}  # pyrefly: ignore


def test_the_same_words_have_the_same_hash_in_every_process_of_a_log(tmp_path: Path, caplog) -> None:
    models = written(tmp_path)
    with Router.open(tmp_path / "sage.db", models=models, environment={}) as router:
        one = router.route(role="coder", task="fix it", task_id="t")
        later = router.route(role="coder", task="go on", opening=" fix it\n")
        other = router.route(role="coder", task="fix it", tenant="another")
        nothing = router.route(role="coder", task=" ")
        steps = [router.cascade(role="coder", task="fix it").next()] if router.cascades.rules else []
    with Router.open(tmp_path / "sage.db", models=models, environment={}) as router:
        again = router.route(role="coder", task="fix it")
        assert router.log.decision(again.id) == again
    assert one.opening == later.opening == again.opening != other.opening
    assert [step.opening for step in steps if step] == [one.opening] * len(steps)
    assert nothing.opening == ""
    key = tmp_path / "sage.db.task-key"
    assert key.stat().st_size == 32
    assert os.name == "nt" or key.stat().st_mode & 0o777 == 0o600
    other_log = OpeningHasher(tmp_path / "other.db")
    assert other_log.hash("default", "fix it") == ""
    other_log.open()
    assert other_log.hash("default", "fix it") not in ("", one.opening)  # has a key of its own
    key.write_bytes(b"")
    hasher = OpeningHasher(tmp_path / "sage.db")
    for _ in range(2):
        hasher.open()
        assert hasher.hash("default", "fix it") == ""
    (warning,) = (record.message for record in caplog.records)
    assert warning.startswith(f"{key}: a key has 32 bytes, and this file 0: delete it, and another is made; ")
