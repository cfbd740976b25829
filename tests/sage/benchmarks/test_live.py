"""A live comparison: real HTTP, exact verifiers, a log and a run pack; only the models are scripted."""

from __future__ import annotations

import json
from pathlib import Path

import live
import numpy as np
import pytest
from short_tasks.generate import PYTHON, generate

from sage.cli import main
from sage.log.decision_log import DecisionLog
from sage.log.records import Request
from sage.policies.checkpoint import save_policy
from sage.policies.features import contexts_of
from sage.rl.category_table import table_from_outcomes
from tests.sage.agent.models import LARGE_USD, SMALL_USD, completion, serving
from tests.sage.serve.scripted import Asked, Reply, Upstream, whole

TASKS = 12
COMMAND = ["--checkpoint", "policy.bin", "--tasks", str(TASKS)]
QUESTIONS = {task.prompt: task for task in generate(0)}


def by_strength(asked: Asked) -> Reply:
    """The small model is always wrong, and the large one right in questions, whose answers need no sandbox here."""
    task = QUESTIONS[asked.values["messages"][-1]["content"]]
    right = asked.values["model"] == "large" and task.category != PYTHON
    expected = ", ".join(task.expected) if isinstance(task.expected, list) else task.expected
    said = json.dumps(expected) if task.verifier == "json" else str(expected)
    return completion(said if right else "no idea")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a policy that has learned to ask the large model for every question."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UP_KEY", "k")
    monkeypatch.setattr("live_comparison.verdict", without_sandbox)
    categories = sorted({task.category for task in QUESTIONS.values()} - {PYTHON})
    seen = [Request(role="planner", category=name, task_id=f"{name}-{i}") for name in categories for i in range(40)]
    rewards = np.tile([0.0, 1.0], (len(seen), 1))
    save_policy("policy.bin", table_from_outcomes(contexts_of(seen), ("small", "large"), rewards, incumbent="small"))
    return tmp_path


def without_sandbox(task, text):
    from short_tasks.checking import VERIFIERS, opinion

    return opinion(False) if task.category == PYTHON else VERIFIERS[task.verifier](text, task.expected)


def test_both_sides_are_asked_logged_and_compared(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    upstream = Upstream(by_strength)
    with serving(folder, upstream):
        assert live.main([*COMMAND, "--run-pack-dir", "pack", "--out", "results.json"]) == 0
    shown = capfd.readouterr().out
    assert "policy off" in shown
    assert "SAGE_RL_FORCE=1 lets it serve" in shown  # the gate has not seen this policy
    results = json.loads(Path("results.json").read_text())
    pairs = [json.loads(line) for line in Path("pack/pairs.jsonl").read_text().splitlines()]
    questions = sum(pair["category"] != PYTHON for pair in pairs)
    assert 0 < questions < TASKS == len(pairs) == results["pairs"]
    assert len(upstream.asked) == 2 * TASKS
    assert results["chosen"] == {"off": {"small": TASKS}, "on": {"large": questions, "small": TASKS - questions}}
    assert (results["same_model"], results["left_out"]) == (TASKS - questions, 0)
    quality, cost = results["comparison"]["quality"], results["comparison"]["cost_usd"]
    assert (quality["off"], quality["on"]) == (0.0, pytest.approx(questions / TASKS))
    low, high = quality["interval"]
    assert low < quality["difference"] < high
    assert cost["difference"] == pytest.approx(questions * (LARGE_USD - SMALL_USD) / TASKS)

    logged = {decision.id: (decision, outcome) for decision, outcome in DecisionLog(Path("sage.db")).rows()}
    assert len(logged) == 2 * TASKS
    for pair in pairs:
        for side in ("off", "on"):
            decision, outcome = logged[pair[side]["decision"]]
            assert (decision.task_id, decision.model) == (pair["task"], pair[side]["model"])
            assert (outcome.quality, outcome.cost_usd) == (pair[side]["quality"], pair[side]["cost_usd"])

    assert live.main(["--verify", "pack"]) == 0
    pairs[0]["off"]["quality"] = 1.0
    Path("pack/pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    assert main(["bench", "verify", "pack"]) == 1
    assert "pairs.jsonl: changed since the pack was written" in capfd.readouterr().out  # of the program that it runs


def test_an_upstream_that_fails_is_a_wrong_answer_that_cost_nothing(folder: Path) -> None:
    with serving(folder, Upstream(lambda _: whole({"error": {"message": "down"}}, 503))):
        assert live.main([*COMMAND, "--tasks", "2", "--out", "results.json"]) == 0
    comparison = json.loads(Path("results.json").read_text())["comparison"]
    assert (comparison["quality"]["on"], comparison["cost_usd"]["on"]) == (0.0, 0.0)


BENCH = ["bench", "--compare-policy", "--live"]  # which runs the program of the checkout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "--live"], "--live is for `sage bench --compare-policy --live --checkpoint POLICY`"),
        ([*BENCH, "--checkpoint", "policy.bin", "--tasks", "1"], "--tasks 1 must be 2 to 1030"),
        ([*BENCH, "--checkpoint", "policy.bin", "--suite", "x.yaml"], "on its own tasks"),
    ],
)
def test_what_cannot_be_compared(
    folder: Path, capfd: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(words) == 2
    assert sentence in capfd.readouterr().err


@pytest.mark.parametrize("words", [["--ablations"], ["--compare-policy", "--live", "--checkpoint", "policy.bin"]])
def test_without_a_checkout_bench_says_where_an_experiment_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr("sage.benchmarks.experiments.FOLDER", folder)
    assert main(["bench", *words]) == 2
    assert "which only a checkout of the repository has" in capsys.readouterr().err
