"""Cascades: every step is a logged decision with its probabilities, and what is reported stays with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sage import DecisionLog, Router
from sage.log.cascade_steps import Step
from sage.orchestrator.cascade import Cascade
from sage.orchestrator.cascade_tier import CascadeError
from sage.orchestrator.promotion import Served
from sage.policies.cascades.cascade_policy import CascadeStates
from tests.sage.examples import written
from tests.sage.orchestrator.test_fail_open import full

LADDER = """
cascade:
  default: {ladder: [small, medium], verifiers: [tests]}
  coder: {ladder: [small, medium, large], verifiers: [tests, judge], exploration: SHARE}
"""


def opened(folder: Path, share: float = 0.0, extra: str = "", seed: int = 0) -> Router:
    models = written(folder, extra + LADDER.replace("SHARE", str(share)))
    return Router.open(folder / "sage.db", models=models, environment={}, data_source="synthetic", seed=seed)


def states(task: Cascade) -> list[tuple]:
    """Of every logged step: what it chose, its candidates and probabilities, and what was known before."""
    steps = []
    for made, _ in task.router.log.cascade(task.id):
        assert made.cascade is not None
        before = [(attempt.model, attempt.verdict, attempt.cost_usd) for attempt in made.cascade.attempts]
        steps.append((made.model, dict(zip(made.candidates, made.probabilities, strict=True)), before))
    return steps


def test_a_ladder_goes_on_until_an_answer_passes(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="coder", task_id="t", category="c")
        chosen = []
        for attempt in task:
            chosen.append(attempt.model)
            word = task.report(f"by {attempt.model}", cost_usd=0.5, verdicts={"tests": attempt.model == "medium"})
            assert word == ("passed" if attempt.model == "medium" else "failed")
        assert chosen == ["small", "medium"]
        assert task.next() is None
        assert (task.answer, task.stopped.id) == ("by medium", task.id)  # pyrefly: ignore
        assert states(task) == [
            ("small", {"small": 1.0, "medium": 0.0, "large": 0.0}, []),
            ("medium", {"medium": 1.0, "large": 0.0, "stop": 0.0}, [("small", "failed", 0.5)]),
            ("stop", {"large": 0.0, "stop": 1.0}, [("small", "failed", 0.5), ("medium", "passed", 0.5)]),
        ]
        assert router.outcome(task.id, quality=1.0) == "joined"
        steps = router.log.cascade(task.id)
    assert {(made.task_id, made.category, made.policy, made.verdict) for made, _ in steps} == {
        ("t", "c", "ladder", "ok")
    }
    assert [made.reason for made, _ in steps] == [
        "ladder: the first model",
        "ladder: the next model",
        "ladder: the answer of medium passed",
    ]
    assert steps[-1][1].quality == 1.0  # pyrefly: ignore
    assert [verdict.verdict for verdict in steps[0][1].verdicts] == ["failed", "unknown"]  # no judge was given


def test_the_end_of_the_ladder_takes_what_there_is(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="debugger")
        for _ in task:
            task.report(verdicts={"tests": False})
        assert states(task)[-1] == ("stop", {"stop": 1.0}, [("small", "failed", None), ("medium", "failed", None)])
        assert task.taken.model == "medium"  # pyrefly: ignore
        assert {made.task_id for made, _ in router.log.cascade(task.id)} == {
            task.id
        }  # one task, though nobody named it


def test_probabilities_of_exploration_are_exact_and_drawn_from(tmp_path: Path) -> None:
    seen: dict[tuple, Counter[str]] = {}
    shares: dict[tuple, dict[str, float]] = {}
    with opened(tmp_path, share=0.4) as router:
        for number in range(200):
            task = router.cascade(role="coder")
            for attempt in task:
                task.report(verdicts={"tests": (number + len(attempt.model)) % 2 == 0}, cost_usd=0.1)
        for made, _ in router.log.rows():
            assert made.cascade is not None
            state = tuple((attempt.model, attempt.verdict) for attempt in made.cascade.attempts)
            seen.setdefault(state, Counter())[made.model] += 1
            shares.setdefault(state, dict(zip(made.candidates, made.probabilities, strict=True)))
            assert shares[state] == dict(zip(made.candidates, made.probabilities, strict=True))
    assert shares[()] == pytest.approx({"small": 0.6 + 0.4 / 3, "medium": 0.4 / 3, "large": 0.4 / 3})
    assert shares[("small", "failed"),] == pytest.approx({"medium": 0.6 + 0.4 / 3, "large": 0.4 / 3, "stop": 0.4 / 3})
    assert shares[("small", "passed"),] == pytest.approx({"medium": 0.4 / 3, "large": 0.4 / 3, "stop": 0.6 + 0.4 / 3})
    for state, counts in seen.items():
        for name, chance in shares[state].items():
            deviation = np.sqrt(counts.total() * chance * (1 - chance))
            assert abs(counts[name] - counts.total() * chance) <= 4 * deviation + 1


def test_an_explored_escalation_leaves_the_answer_that_passed(tmp_path: Path) -> None:
    with opened(tmp_path, share=0.9) as router:
        for _ in range(60):
            task = router.cascade(role="coder")
            for attempt in task:
                task.report(attempt.model, verdicts={"tests": attempt.model == "small"})
            models = [made.model for made, _ in task.tried]
            assert task.answer == ("small" if "small" in models else models[-1])


def test_limits_end_a_cascade(tmp_path: Path) -> None:
    default, coder = "{ladder: [small, medium], max_attempts: 1}", "{ladder: [small, medium, large], budget_usd: 0.02}"
    models = written(tmp_path, f"cascade:\n  default: {default}\n  coder: {coder}\n")
    with Router.open(tmp_path / "sage.db", models=models, environment={}) as router:
        once = router.cascade(role="debugger")
        assert [attempt.model for attempt in once] == ["small"]
        poor = router.cascade(role="coder")
        for _ in poor:
            poor.report(cost_usd=0.015, verdicts={"by_hand": False})
        assert [made.model for made, _ in poor.tried] == ["small"]  # medium is expected to cost .015 as well
        assert (poor.stopped.candidates, poor.stopped.verdict) == (("stop",), "over_budget")  # pyrefly: ignore


def test_a_budget_of_the_session_counts_attempts(tmp_path: Path) -> None:
    with opened(tmp_path, extra="guard: {budget_usd: 0.03}\n") as router:
        task = router.cascade(role="coder", session="s")
        small = task.next()
        assert small.expected_cost_usd == pytest.approx(0.001)  # pyrefly: ignore
        assert router.log.spent("default", "s") == pytest.approx(0.001)
        task.report(verdicts={"tests": False}, cost_usd=0.01)
        assert task.next().model == "medium"  # pyrefly: ignore
        assert task.next() is None  # nothing is left for the large one
        assert task.stopped.verdict == "over_budget"  # pyrefly: ignore
        first = router.cascade(role="coder", session="s").next()
        assert (first.model, first.verdict) == ("small", "ok")  # pyrefly: ignore
        router.outcome(first.id, cost_usd=1.0)  # pyrefly: ignore
        again = router.cascade(role="coder", session="s")
        assert again.next().verdict == "over_budget"  # the cheapest answers all the same  # pyrefly: ignore
        assert again.next() is None


def test_a_provider_that_falls_back_is_attributed_and_not_tried_again(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="coder")
        task.next()
        task.report(cost_usd=0.25, model="medium", verdicts={"tests": False})
        second = task.next()
        assert second.candidates == ("large", "stop")  # medium has answered already  # pyrefly: ignore
        [before] = second.cascade.attempts  # pyrefly: ignore
        assert (before.model, before.answered_by, before.cost_usd) == ("small", "medium", 0.25)


def test_functions_of_the_caller_judge(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(verifiers={"judge": lambda answer: "good" in answer.text}, role="coder")
        for attempt in task:
            task.report("good" if attempt.model == "large" else "bad")
        assert task.answer == "good"
        assert task.report(verdicts={"tests": True}) == "passed"  # known later
        assert router.log.cascade(task.id)[2][1].verdicts[1].source == "a function of the caller"  # pyrefly: ignore


def test_parts_and_time_outs(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="coder")
        task.next()
        assert task.report(cost_usd=0.5) == "unknown"
        assert task.report(timed_out=True) == "failed"
        task.next()  # nobody says what came of it
        task.next()
        [first, second] = router.log.cascade(task.id)[2][0].cascade.attempts  # pyrefly: ignore
        assert (first.cost_usd, first.timed_out, second.verdict) == (0.5, True, "unknown")
        task.report("late answer", verdicts={"tests": False})
        assert task.next() is None
        assert task.answer == "late answer"


def test_any_process_goes_on_with_a_cascade(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="coder", task="x" * 2000, task_id="t", session="s")
        made = task.next()
        assert made.cascade == Step(cascade_id=task.id, number=0)  # pyrefly: ignore
    with opened(tmp_path) as router:
        again = router.resume(task.id)
        assert again.report(verdicts={"tests": False}, cost_usd=0.5) == "failed"
        second = again.next()
        assert (second.model, second.task_id, second.session) == ("medium", "t", "s")  # pyrefly: ignore
        assert second.features == made.features  # as it was routed, though the text is not in the log  # pyrefly: ignore
        router.outcome(second.id, verdicts={"tests": True})  # pyrefly: ignore
        last = router.resume(task.id)
        assert last.next() is None
        assert router.resume(task.id).stopped == last.stopped
        with pytest.raises(CascadeError, match="cascade 'nobody' is not in"):
            router.resume("nobody")


def test_mistakes_are_said_in_a_sentence(tmp_path: Path) -> None:
    router = Router.open(tmp_path / "a.db", models=written(tmp_path), environment={})
    with pytest.raises(CascadeError, match=r"models.yaml has no cascade for coder: add cascade.coder or"):
        router.cascade(role="coder")
    with opened(tmp_path) as router:
        with pytest.raises(CascadeError, match="nothing was tried yet"):
            router.cascade(role="coder").report(cost_usd=1.0)
        with pytest.raises(TypeError, match=r"cascade\(\) has no argument 'rol': did you mean 'role'"):
            router.cascade(rol="coder")  # pyrefly: ignore


def test_a_full_disk_is_answered_by_the_ladder(tmp_path: Path) -> None:
    with opened(tmp_path, share=0.9) as router:
        task = router.cascade(role="coder")
        task.next()
        with full(router):
            assert task.report("first", verdicts={"tests": False}, cost_usd=0.5) == "failed"
            second = task.next()
            assert (second.logged, second.propensity) == (False, 1.0)  # pyrefly: ignore
            other = router.cascade(role="debugger")
            assert [attempt.model for attempt in other if other.report(verdicts={"tests": False})] == [
                "small",
                "medium",
            ]
            assert not other.stopped.logged  # pyrefly: ignore
        task.report(verdicts={"tests": True})
        while task.next() is not None:
            task.report(verdicts={"tests": True})
        logged = router.log.cascade(task.id)
        assert [made.cascade.number for made, _ in logged][:2] == [0, 2]  # the gap shows  # pyrefly: ignore
        assert logged[0][1].cost_usd == 0.5  # what waited was written  # pyrefly: ignore
        assert router.log.cascade(other.id) == []
        assert router.backlog.counts["decisions"] == 4


def test_a_step_that_another_process_has_decided_is_not_logged_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as router:
        task = router.cascade(role="coder")
        task.next()
        twin = router.resume(task.id)
        assert task.next().logged  # pyrefly: ignore
        late = twin.next()
        assert (late.logged, late.model) == (False, "medium")  # pyrefly: ignore
        assert "step 1 of cascade" in late.reason  # pyrefly: ignore
        assert len(router.log.cascade(task.id)) == 2


class Learned:
    name, version = "learned", "7"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        if isinstance(self.answer, Exception):
            raise self.answer
        assert models == ("small", "medium", "large")
        return np.where(eligible[:, -1:], np.eye(4)[-1], np.eye(4)[2]) if self.answer is None else np.array(self.answer)


@pytest.mark.parametrize(
    ("answer", "verdict", "first"),
    [
        (None, "ok", "large"),
        (ValueError("no"), "policy_failed", "small"),
        ([[0.5, 0.5, 0.5, 0.0]], "policy_invalid", "small"),
        ([[0.0, 0.0, 0.0, 1.0]], "policy_invalid", "small"),  # to stop before there is an answer
    ],
)
def test_a_learned_cascade_is_asked_first_and_may_fail(
    tmp_path: Path, answer: object, verdict: str, first: str
) -> None:
    with opened(tmp_path) as router:
        router.cascades.learned = Served(Learned(answer))
        task = router.cascade(role="coder")
        made = task.next()
        assert (made.model, made.verdict) == (first, verdict)  # pyrefly: ignore
        assert made.policy == ("learned" if verdict == "ok" else "ladder")  # pyrefly: ignore


MODELS = ("small", "medium", "large")


def run_tasks(folder: Path, thread: int, notes: int, limit: int) -> None:
    router = opened(folder, share=0.5, seed=thread)
    for number in range(limit):
        task = router.cascade(role="coder", task_id=f"{thread}-{number}")
        for attempt in task:
            falls = (number + thread) % 5 == 0
            answered = MODELS[(MODELS.index(attempt.model) + 1) % 3] if falls else attempt.model
            cost = 0.25 * (1 + MODELS.index(answered))
            task.report(cost_usd=cost, model=answered if falls else None, verdicts={"tests": answered == "large"})
            os.write(notes, f"attempt {task.id} {attempt.id} {attempt.model} {answered}\n".encode())
        os.write(notes, f"stop {task.id}\n".encode())
    router.close()


def serve(folder: Path, limit: int) -> None:
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    threads = [threading.Thread(target=run_tasks, args=(folder, k, notes, limit)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def held_in_the_middle(pid: int | None, notes: Path) -> bool:
    """Stops a process where a cascade has to try another model; lets it go on where none has."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    last: dict[str, list[str]] = {}
    for words in (line.split() for line in notes.read_text().splitlines()):
        last[words[1]] = words
    if any(words[0] == "attempt" and words[3] != MODELS[-1] and words[4] != "large" for words in last.values()):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def test_four_threads_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    """Late quality, a provider that falls back, and kill -9 in the middle: what was answered is there, and belongs together."""
    notes = tmp_path / "notes"
    worker = multiprocessing.get_context("fork").Process(target=serve, args=(tmp_path, 1_000_000))
    worker.start()
    while not (notes.exists() and notes.stat().st_size > 20_000 and held_in_the_middle(worker.pid, notes)):
        assert worker.is_alive()
        time.sleep(0.002)
    os.kill(worker.pid, signal.SIGKILL)  # pyrefly: ignore
    worker.join()
    told = [line.split() for line in notes.read_text().splitlines()]
    router = opened(tmp_path)
    stopped = [words[1] for words in told if words[0] == "stop"]
    assert {router.outcome(task, quality=0.75, at=0.0) for task in stopped} == {"joined"}
    rows = {made.id: (made, known) for made, known in router.log.rows()}
    for _, task, attempt, model, answered in (words for words in told if words[0] == "attempt"):
        made, known = rows[attempt]
        assert (made.cascade.cascade_id, made.model) == (task, model)  # pyrefly: ignore
        assert (known.model or made.model, known.cost_usd) == (answered, 0.25 * (1 + MODELS.index(answered)))  # pyrefly: ignore
        assert known.verdicts[0].verdict == ("passed" if answered == "large" else "failed")  # pyrefly: ignore
    for task in stopped:
        steps = router.log.cascade(task)
        assert [made.cascade.number for made, _ in steps] == list(range(len(steps)))  # pyrefly: ignore
        assert (steps[-1][0].model, steps[-1][1].quality) == ("stop", 0.75)  # pyrefly: ignore
    begun = {made.cascade.cascade_id for made, _ in rows.values()}  # pyrefly: ignore
    assert 0 < len(begun - set(stopped) - set(rows)) <= 4  # at most one of each thread is left in the middle
    assert len(rows) <= len(told) + 8
    assert DecisionLog.open(tmp_path / "sage.db").damage() == ""
    router.close()
