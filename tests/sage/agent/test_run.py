"""`sage run` from a sentence to a patch: real HTTP, a real sandbox, a real log; only the models are scripted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from tests.sage.agent.models import (
    APPROVE,
    CASCADE,
    KEY,
    LARGE_USD,
    PLAN,
    PROJECT,
    REPAIR,
    RIGHT,
    SMALL_USD,
    TEST,
    WRONG,
    completion,
    scripted,
)
from tests.sage.serve.scripted import whole

Sage = Callable[..., int]


def rows() -> list[tuple[Decision, Outcome]]:
    """All decisions, of which every one has an outcome."""
    found = []
    for decision, outcome in DecisionLog(Path("sage.db")).rows():
        assert outcome is not None, decision
        assert sum(decision.probabilities) == pytest.approx(1)
        found.append((decision, outcome))
    return found


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_from_a_plan_over_a_failing_test_to_a_patch(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {
        "planner": [PLAN],
        "coder": [WRONG],
        "debugger": [REPAIR],
        "test_engineer": [TEST],
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers) as models:
        assert sage("--trace", "trace.jsonl") == 0
    shown = capsys.readouterr()
    assert [role for role, _ in models.asked] == ["planner", "coder", "debugger", "test_engineer", "reviewer"]
    assert "assert add(2, 3) == 5" in models.told[2]  # what the tests said, to the debugger
    assert "+def double(a):" in models.told[4]  # the patch, to the reviewer
    assert "the tests pass" in shown.err
    assert "nothing was applied" in shown.err
    assert contents(project) == PROJECT

    logged = rows()
    assert [decision.role for decision, _ in logged] == [role for role, _ in models.asked]
    assert [outcome.quality for _, outcome in logged] == [1.0, 0.0, 1.0, 1.0, None]
    assert [outcome.cost_usd for _, outcome in logged] == pytest.approx([SMALL_USD] * 5)
    assert len({decision.task_id for decision, _ in logged}) == 1
    assert {(outcome.tokens_in, outcome.tokens_out) for _, outcome in logged} == {(1000, 30)}

    events = [json.loads(line) for line in Path("trace.jsonl").read_text().splitlines()]
    assert {event["decision"] for event in events if event["event"] == "call"} == {d.id for d, _ in logged}
    assert [event["passed"] for event in events if event["event"] == "tests"] == [True, False, True, True]
    assert (events[-1]["event"], events[-1]["succeeded"]) == ("end", True)
    assert events[-1]["spent_usd"] == pytest.approx(5 * SMALL_USD)

    Path("change.patch").write_text(shown.out)
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    subprocess.run(["git", "apply", "../change.patch"], cwd=project, check=True)
    assert contents(project)["tests/test_double.py"].endswith("assert double(4) == 8\n")


def test_a_cascade_escalates_from_a_model_whose_edits_are_wrong(project: Path, sage: Sage) -> None:
    answers = {
        "planner": ["```plan\ncoder: add double to calc.py\n```"],
        "coder": lambda model: WRONG if model == "small" else RIGHT,
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers, CASCADE) as models:
        assert sage("--apply") == 0
    assert models.asked == [("planner", "small"), ("coder", "small"), ("coder", "large"), ("reviewer", "small")]
    assert contents(project) == PROJECT | {"calc.py": PROJECT["calc.py"] + "\n\ndef double(a):\n    return add(a, a)\n"}
    steps = [(d, o) for d, o in rows() if d.cascade is not None]
    assert [decision.model for decision, _ in steps] == ["small", "large", "stop"]
    assert [[v.verdict for v in outcome.verdicts] for _, outcome in steps] == [["failed"], ["passed"], []]
    assert [outcome.cost_usd for _, outcome in steps] == [pytest.approx(SMALL_USD), pytest.approx(LARGE_USD), None]
    assert steps[-1][1].quality == 1.0


def test_a_conversation_of_several_calls_is_paid_by_the_decision_that_chose_the_model(
    project: Path, sage: Sage
) -> None:
    answers = {
        "planner": ["Add double to calc.py."],  # without a block: the words are the plan
        "coder": ["```read calc.py\n```", RIGHT],
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers) as models:
        assert sage("--patch", "change.patch") == 0
    assert "1\tdef add(a, b):" in models.told[2]
    assert Path("change.patch").read_text().count("+def double(a):") == 1
    first, second = (outcome for decision, outcome in rows() if decision.role == "coder")
    assert (first.cost_usd, second.cost_usd) == (pytest.approx(2 * SMALL_USD), 0.0)
    assert (first.quality, first.tokens_in, second.quality) == (1.0, 2000, None)


def test_an_answer_without_a_call_is_told_how_to_write_one(project: Path, sage: Sage) -> None:
    answers = {
        "planner": [PLAN.replace("test_engineer: add a test of it\n", "")],
        "coder": ["Sure!", "```python\nprint(1)\n```", "```wrte calc.py\n```", "```edit nowhere.py\nx\n```", RIGHT],
        "debugger": [RIGHT],
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers) as models:
        assert sage() == 0
    assert [role for role, _ in models.asked].count("coder") == 3  # after which the attempt ends
    assert "your answer calls no tool" in models.told[2]
    assert "a block 'python' calls no tool" in models.told[3]
    assert "Nothing was changed" in models.told[4]  # to the debugger
    assert [outcome.quality for decision, outcome in rows() if decision.role == "coder"] == [0.0, None, None]


def test_what_a_tool_refuses_is_told_before_the_work_ends(project: Path, sage: Sage) -> None:
    refused = (
        "```edit nowhere.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n```write .git/hooks/post-checkout\nrm -rf ~\n```\n"
        "```write ../outside.py\nx\n```\n```done\n```"
    )
    answers = {"planner": ["```plan\ncoder: it\n```"], "coder": [refused, RIGHT], "reviewer": [APPROVE]}
    with scripted(project.parent, answers) as models:
        assert sage("--apply") == 0
    told = models.told[2]
    assert "there is no file 'nowhere.py'" in told
    assert "it belongs to the version control" in told
    assert "'../outside.py' must be relative and plain" in told
    assert set(contents(project)) == set(PROJECT)
    assert not Path("outside.py").exists()


def test_the_budget_is_kept(project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"planner": lambda _: PLAN, "coder": lambda _: "```read calc.py\n```"}
    budget = 0.012
    with scripted(project.parent, answers) as models:
        assert sage("--budget-usd", str(budget)) == 1
    assert "--budget-usd allows" in capsys.readouterr().err
    asked = [request.values for request in models.upstream.asked]
    assert len(asked) > 2
    for values in asked:  # even if every byte were a token, and every answer as long as it may be
        size = sum(len(message["content"].encode()) for message in values["messages"])
        assert (size + 2 * values["max_tokens"]) / 1e6 < budget
    assert sum(outcome.cost_usd or 0.0 for _, outcome in rows()) <= budget
    assert asked[-1]["max_tokens"] < asked[0]["max_tokens"]


def test_steps_end(project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"planner": [PLAN], "coder": [RIGHT.replace("done", "test"), "```run\nls\n```"]}
    with scripted(project.parent, answers):
        assert sage("--max-steps", "3", "--apply") == 1
    shown = capsys.readouterr()
    assert "it has made all 3 calls that --max-steps allows" in shown.err
    assert "+def double(a):" in shown.out  # what there is, is shown, and not applied
    assert contents(project) == PROJECT
    assert [outcome.quality for _, outcome in rows()] == [None, 1.0, None]  # the tests told all the same


def test_a_model_that_fails_is_followed_by_another(project: Path, sage: Sage) -> None:
    broken = whole({"error": {"message": f"no such key {KEY}"}}, 500)
    answers = {
        "planner": lambda model: broken if model == "small" else "```plan\ncoder: it\n```",
        "coder": lambda model: broken if model == "small" else RIGHT,
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers, CASCADE):
        assert sage("--trace", "trace.jsonl") == 0
    planner, *coders = [(d, o) for d, o in rows() if d.role != "reviewer"]
    assert (planner[0].model, planner[1].model) == ("small", "large")
    assert [d.model for d, _ in coders] == ["small", "large", "stop"]
    assert (coders[0][1].cost_usd, coders[0][1].verdicts[0].verdict) == (0.0, "failed")
    assert KEY not in Path("trace.jsonl").read_text()


def test_no_model_answers(project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(project.parent, {"planner": lambda _: whole({"error": {"message": "down"}}, 503)}):
        assert sage() == 1
    assert "no model answered" in capsys.readouterr().err
    ((_, outcome),) = rows()
    assert (outcome.quality, outcome.cost_usd) == (0.0, 0.0)


def test_an_upstream_that_wants_the_newer_name_of_a_limit_gets_it(project: Path, sage: Sage) -> None:
    refusal = whole({"error": {"message": "Unsupported 'max_tokens'. Use 'max_completion_tokens' instead."}}, 400)
    answers = {"planner": [refusal, "```plan\ncoder: it\n```"], "coder": [RIGHT], "reviewer": [APPROVE]}
    with scripted(project.parent, answers) as models:
        assert sage() == 0
    limits = ["max_completion_tokens" in request.values for request in models.upstream.asked]
    assert limits == [False, True, True, True]


def test_a_repository_that_changed_meanwhile_is_left_alone(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]
) -> None:
    def reviewed(_: str) -> str:
        (project / "calc.py").write_text("# somebody else was here\n")
        return APPROVE

    answers = {"planner": [PLAN], "coder": [RIGHT], "test_engineer": [TEST], "reviewer": reviewed}
    with scripted(project.parent, answers):
        assert sage("--apply") == 2
    assert "calc.py has changed since the agent began, and nothing was applied" in capsys.readouterr().err
    assert contents(project) == PROJECT | {"calc.py": "# somebody else was here\n"}


def test_nothing_touches_the_host(project: Path, sage: Sage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of a model sees neither files nor variables of the host, and none of ours is started for it."""
    mark = project.parent / "touched"
    command = f"```run\necho x > {mark}; touch calc.py; cat {project}/calc.py; echo key=$UP_KEY; id -u\n```"
    answers = {"planner": [PLAN], "coder": [command, RIGHT], "test_engineer": [TEST], "reviewer": [APPROVE]}
    monkeypatch.setattr("sage.agent.host.run_in", lambda *_: pytest.fail("ran on the host"))
    with scripted(project.parent, answers) as models:
        assert sage() == 0
    told = models.told[2]
    assert not mark.exists()
    assert "key=\n" in told
    assert "def add" not in told
    assert contents(project) == PROJECT


def test_unsafe_runs_in_a_copy_on_the_host(project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]) -> None:
    mark = project.parent / "touched"
    answers = {
        "planner": [PLAN],
        "coder": [f"```run\necho x > {mark}; rm calc.py\n```", RIGHT],
        "test_engineer": [TEST],
    }
    with scripted(project.parent, answers | {"reviewer": [APPROVE]}):
        assert sage("--unsafe", "--test", 'python -c "import calc; assert calc.add(2, 3) == 5"') == 0
    assert mark.read_text() == "x\n"
    assert "warning: --unsafe" in capsys.readouterr().err
    assert contents(project) == PROJECT  # commands run in a copy


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_complete_log_and_trace(project: Path, sage: Sage, sent: signal.Signals) -> None:
    def interrupted(_: str) -> str:
        os.kill(os.getpid(), sent)
        return RIGHT

    answers = {"planner": [PLAN], "coder": interrupted}
    with scripted(project.parent, answers):
        assert sage("--trace", "trace.jsonl") == 130
    (_, planned), (_, outcome) = rows()
    assert (planned.cost_usd, planned.timed_out) == (pytest.approx(SMALL_USD), False)
    assert (outcome.timed_out, outcome.provenance, outcome.quality) == (True, "sage run: interrupted", None)
    events = [json.loads(line) for line in Path("trace.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["ended"]) == ("end", "interrupted")


def test_secrets_are_neither_in_the_trace_nor_in_the_log(project: Path, sage: Sage) -> None:
    token = "ghp_" + "a1B2" * 9
    (project / "settings.py").write_text(f"token = '{token}'\n")
    answers = {
        "planner": [f"```plan\ncoder: use {token} and {KEY}\n```"],
        "coder": ["```read settings.py\n```", RIGHT],
        "reviewer": [APPROVE],
    }
    with scripted(project.parent, answers, "log: {store_prompts: true}\n"):
        assert sage("--trace", "trace.jsonl") == 0
    stored = Path("trace.jsonl").read_bytes() + b"".join(path.read_bytes() for path in Path().glob("sage.db*"))
    assert b"[secret removed]" in stored
    assert token.encode() not in stored
    assert KEY.encode() not in stored


def test_a_cut_answer_is_not_written(project: Path, sage: Sage) -> None:
    cut = completion("```write calc.py\ndef add(a, b):\n    return a +", "length")
    answers = {"planner": [PLAN], "coder": [cut, RIGHT], "test_engineer": [TEST], "reviewer": [APPROVE]}
    with scripted(project.parent, answers) as models:
        assert sage() == 0
    assert "is not closed, so it may be cut off" in models.told[2]


def test_a_reviewer_sends_it_back(project: Path, sage: Sage) -> None:
    better = "```write notes.md\ndouble(a) is 2 a\n```\n```done\n```"
    answers = {
        "planner": [PLAN],
        "coder": [RIGHT],
        "test_engineer": [TEST],
        "reviewer": ["```reject\nthere are no notes\n```"],
        "debugger": [better],
    }
    with scripted(project.parent, answers) as models:
        assert sage("--apply") == 0
    assert "there are no notes" in models.told[-1]
    assert contents(project)["notes.md"] == "double(a) is 2 a\n"


def test_a_change_that_passes_outlives_a_reviewer_whose_wishes_break_it(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = "```write calc.py\n=======\n```\n```done\n```"
    answers = {
        "planner": [PLAN],
        "coder": [RIGHT],
        "test_engineer": [TEST],
        "reviewer": ["```reject\nI do not like it\n```"],
        "debugger": [worse] * 5,
    }
    with scripted(project.parent, answers):
        assert sage("--apply") == 0
    assert "a reviewer objects, and what was done about it made the tests fail" in capsys.readouterr().err
    assert "=======" not in contents(project)["calc.py"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget-usd", "0"], "--budget-usd 0 must be above 0"),
        (["--max-steps", "0"], "--max-steps 0 must be 1 or more"),
        (["--test", ""], "--test names no command"),
        (["--test", "a 'b"], "cannot be read (No closing quotation)"),
        (["--repo", "nowhere"], "--repo nowhere is no folder"),
        (["--trace", "models.yaml"], "--trace models.yaml is there already"),
    ],
)
def test_bad_settings(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    with scripted(project.parent, {}) as models:
        assert sage(*words) == 2
    assert sentence in capsys.readouterr().err
    assert models.asked == []


@pytest.mark.parametrize("words", [(), ("--unsafe",)], ids=["sandbox", "unsafe"])
def test_a_conftest_that_ends_pytest_with_success_does_not_pass(
    project: Path,
    sage: Sage,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of pytest on the host, which starts in half the time
    cheat = WRONG.replace("```done", "```write conftest.py\nimport os\nos._exit(0)\n```\n```done")
    answers = {"planner": ["```plan\ncoder: it\n```"], "coder": [cheat], "debugger": ["```done\n```"] * 4}
    with scripted(project.parent, answers) as models:
        assert sage("--apply", *words) == 1
    assert "the tests still fail" in capsys.readouterr().err
    assert "- tests/test_calc.py::test_add: AssertionError -1 is not 5" in models.told[2]
    assert "What was changed in conftest.py does not count" in models.told[2]
    assert contents(project) == PROJECT
    qualities = [outcome.quality for decision, outcome in rows() if decision.role in ("planner", "coder")]
    assert qualities == ([None, None] if words else [0.0, 0.0])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--test", "sh -c 'exit 0'"), "sh is not pytest"),
        (("--may-change-tests",), "--may-change-tests lets the models change the tests"),
    ],
)
def test_an_exit_code_is_a_verdict_and_no_quality(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    edit = RIGHT.replace("```done", "```write tests/test_calc.py\ndef test_a():\n    pass\n```\n```done")
    answers = {"planner": ["```plan\ncoder: it\n```"], "coder": [edit], "reviewer": [APPROVE]}
    with scripted(project.parent, answers, CASCADE):
        assert sage(*words) == 0
    told = capsys.readouterr().err
    assert f"no quality is logged: {reason}" in told
    assert "ends with exit code 0" in told
    logged = [(decision.model, outcome) for decision, outcome in DecisionLog(Path("sage.db")).rows()]
    assert [model for model, outcome in logged if outcome is None] == ["stop"]  # nobody knows the quality of the task
    known = [outcome for _, outcome in logged if outcome is not None]
    assert {outcome.quality for outcome in known} == {None}
    assert [(v.verifier, v.verdict) for outcome in known for v in outcome.verdicts] == [("exit_code", "passed")]


def test_a_repository_without_tests_gives_no_quality(
    project: Path, sage: Sage, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests/test_calc.py").unlink()
    answers = {"planner": [PLAN], "coder": [RIGHT], "test_engineer": [TEST], "reviewer": [APPROVE]}
    with scripted(project.parent, answers):
        assert sage() == 0
    assert "no quality is logged: there were no tests before the run" in capsys.readouterr().err
    assert {outcome.quality for _, outcome in rows()} == {None}
    verdicts = [[(v.verifier, v.verdict) for v in outcome.verdicts] for _, outcome in rows()]
    assert verdicts == [[], [], [("exit_code", "passed")], []]
