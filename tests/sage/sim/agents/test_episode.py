"""An agent's calls are executed in the sandbox, only what it may change changes, and no call raises."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sage.grading.grading import grade
from sage.grading.task import Task
from sage.grading.test_reports import read_report
from sage.sandbox import Backend, Command, Files, Limits, Result, choose
from sage.sandbox.counted import CountingBackend
from sage.sim.agents import tools
from sage.sim.agents.episode import Budget, Call, TextEpisode
from sage.sim.environment import rules
from sage.sim.environment.trials import UntracedError, spectrum
from sage.verifiers.json_schema import compile_schema
from sage.workspace import searching
from sage.workspace.workspace import MOST_SHOWN, shortened
from tests.doc_pages import ROOT, code_blocks
from tests.sage.sim.environment.small_task import PROGRAM, TASK

FIRST = {"path": "calc.py", "old": "value >= low", "new": "value < low"}
SECOND = {"path": "calc.py", "old": "max(values) + min", "new": "max(values) - min"}
PACKAGE = replace(
    TASK,
    files={"pkg/calc.py": PROGRAM, "pkg/data.bin": b"\xff", "pkg/tests/test_calc.py": b"", "setup.cfg": b""},
    editable=("pkg",),
    test_roots=("pkg/tests",),
)
PAGE = ROOT / "docs" / "sage" / "simulate_agents.md"


class Shared(CountingBackend):
    """The sandbox of all tests, which an example does not close."""

    def close(self) -> None: ...


class Answering:
    """A backend that answers every run in the same way."""

    name = "answering"

    def __init__(self, changed: Mapping[str, bytes] | None = None) -> None:
        self.changed = changed

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        assert self.changed is not None, "this call needs no sandbox"
        return Result(code=0, ended_by="exit", changed=self.changed)

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def episode_of(task: Task = TASK, **budget: float) -> TextEpisode:
    return TextEpisode(Answering(), task, Budget(**budget))


def test_a_repair_by_calls_is_counted_kept_and_solves(zygote: Backend) -> None:
    recorded: list[Call] = []
    episode = TextEpisode(zygote, TASK, record=recorded.append)
    assert "* calc.py (16 lines)\n  test_calc.py" in episode.observation
    failing = episode.call("run_tests")
    assert failing.startswith("4 of 5 tests failed: test_calc.py::test_above, test_calc.py::test_below")
    assert "test_calc.py:5: in test_below\n    assert clamp(-5, 0, 10) == 0\nE   assert -5 == 0" in failing
    assert episode.call("localise").split("\n")[1].startswith("calc.py:2: if value >= low:    (suspicion 0.87")
    assert (
        episode.call("read_file", {"path": "calc.py", "start": 2, "end": 3})
        == "2\t    if value >= low:\n3\t        return low"
    )
    assert episode.call("search", json.dumps({"pattern": r"^def \w+\(values"})) == "calc.py:9:def span(values):"
    assert episode.call("edit", FIRST) == "edited calc.py, from line 2"
    assert episode.call("run_tests", {"names": ["test_below", "test_calc.py::test_span"]}).startswith(
        "1 of 2 tests failed: test_calc.py::test_span"
    )
    assert episode.call("edit", SECOND, cost=2.5) == "edited calc.py, from line 12"
    assert episode.call("run_tests", {"names": ["test_calc.py"]}).startswith("All 5 tests passed.")
    before = episode.state()
    assert episode.call("submit") == "The files are handed in."
    paid = 2 * rules.COSTS["run"] + rules.COSTS["localise"] + 2 * rules.COST_INSPECT + rules.COST_TRY + 2.5
    assert (episode.spent, before["spent"], before["calls_left"]) == (pytest.approx(paid), pytest.approx(paid), 32)
    assert recorded == episode.transcript
    attempt = episode.attempt()
    assert attempt.files is not None
    assert grade(zygote, TASK, attempt.files).solved
    assert (attempt.ended, attempt.actions[:2], attempt.actions[-1]) == ("submit", ("run_tests", "localise"), "submit")
    seen = episode.observation + "".join(call.text for call in episode.transcript)
    assert not any(test.split("::")[1] in seen for test in TASK.hidden)
    assert episode.call("list_files") == "Error: the task has ended (submit), and nothing was done."
    assert len(episode.transcript) == 9


def test_what_a_program_does_in_a_run_stays_there(zygote: Backend) -> None:
    episode = TextEpisode(zygote, TASK)
    mischief = "open('test_calc.py', 'w').write('')\nopen('conftest.py', 'w').write('')\nimport os\nos._exit(0)\n"
    episode.call("write_file", {"path": "calc.py", "content": mischief})
    assert episode.call("run_tests").startswith("The tests did not come to an end (no report; they may use at most 2 s")
    assert episode.call("localise").startswith("Error: the tests could not be traced")
    assert episode.workspace.files == {**TASK.files, "calc.py": mischief.encode()}
    assert episode.call("revert", {"path": "calc.py"}) == "calc.py is as at the beginning"
    assert episode.workspace.files == TASK.files


def test_a_search_that_never_ends_is_ended(zygote: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    episode = TextEpisode(zygote, replace(TASK, files={"calc.py": b"a" * 40 + b"b"}))
    with monkeypatch.context() as patch:
        patch.setattr(searching, "SEARCH_LIMITS", Limits(wall_s=0.3))
        assert episode.call("search", {"pattern": "(a+)+$"}).startswith("Error: the search took too much (wall_s)")
    assert episode.call("search", {"pattern": "(a"}).startswith(
        "Error: '(a' is no regular expression of Python (missing )"
    )
    assert episode.call("search", {"pattern": "é"}) == "no line matches"


def test_long_output_is_shortened(zygote: Backend) -> None:
    episode = TextEpisode(zygote, TASK)
    episode.call("write_file", {"path": "calc.py", "content": "print('x' * 10**6)\nraise ImportError\n"})
    told = episode.call("run_tests")
    assert MOST_SHOWN < len(told) < MOST_SHOWN + 100
    assert "characters are left out" in told
    assert shortened("abcdef", 4) == "ab\n... 2 characters are left out ...\nef"


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("read_fil", {}, "there is no tool 'read_fil': did you mean read_file? use list_files, read_file"),
        (None, None, "there is no tool 'None': use list_files"),
        (["edit"], {}, "there is no tool"),
        ("read_file", {}, "arguments has no 'path': read_file takes path, start, end"),
        ("read_file", {"path": 3}, "arguments.path is no string"),
        ("read_file", {"path": "calc.py", "lines": 3}, "a key that is not allowed: read_file takes path, start, end"),
        ("read_file", {"path": "calc.py", "start": 0}, "arguments.start breaks minimum"),
        ("read_file", {"path": "calc.py", "start": 99}, "there are no lines 99 to 16 in calc.py: it has 16"),
        ("read_file", {"path": "cal.py"}, "there is no file 'cal.py': list_files names all, for example calc.py"),
        ("read_file", "{", "the arguments of read_file are not JSON"),
        ("read_file", "[" * 100_000, "the arguments of read_file are not JSON"),
        ("read_file", [1], "the arguments of read_file are no JSON object"),
        ("edit", {**FIRST, "old": "return"}, "the old text occurs 6 times in calc.py, and must occur once: add lines"),
        (
            "edit",
            {**FIRST, "old": "no such"},
            "the old text does not occur in calc.py, and must occur once: read the file",
        ),
        ("edit", {**FIRST, "new": FIRST["old"]}, "old and new are the same text"),
        ("edit", {**FIRST, "new": "\ud800"}, "the text has surrogates"),
        (
            "edit",
            {**FIRST, "path": "test_calc.py"},
            "'test_calc.py' must stay as it is: a repair may change files of calc.py",
        ),
        ("write_file", {"path": "calc.py", "content": "x" * 500_000}, "500,000 bytes, and may have 400,000"),
        ("write_file", {"path": "other.py", "content": ""}, "'other.py' must stay as it is"),
        ("revert", {"path": "nothing.py"}, "there is no file 'nothing.py' to bring back"),
        (
            "run_tests",
            {"names": ["test_edges"]},
            "no visible test is called 'test_edges': use names such as test_calc.py::",
        ),
        ("search", {"pattern": ""}, "arguments.pattern breaks minLength"),
        ("search", {"pattern": "\ud800"}, "the pattern has surrogates"),
        ("search", {"pattern": "\0"}, "the pattern has a NUL character"),
    ],
)
def test_a_bad_call_is_answered_by_a_sentence_and_costs(name: object, arguments: object, sentence: str) -> None:
    episode = episode_of()
    text = episode.call(name, arguments)
    assert text.startswith("Error: ")
    assert sentence in text
    assert (episode.spent, episode.ended, episode.workspace.files) == (rules.COST_FORBIDDEN, "", TASK.files)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "pkg/tests/test_new.py",
            "pkg/conftest.py",
            "setup.cfg",
            "setup.py",
            "pkg/new.txt",
            "/pkg/x.py",
            "../pkg/x.py",
        ),
        *(
            "pkg/../setup.py",
            "pkg//x.py",
            "pkg/./x.py",
            "pkg/sitecustomize.py",
            "pkg/calc.py/x.py",
            f"pkg/{'x' * 300}.py",
        ),
        *("pkg/\0.py", "pkg/\n.py", "pkg/\ud800.py", "", "pkg"),
    ],
)
def test_nothing_else_can_be_written(path: str) -> None:
    episode = episode_of(PACKAGE)
    assert episode.call("write_file", {"path": path, "content": ""}).startswith("Error: ")
    assert episode.workspace.files == PACKAGE.files


def test_files_of_a_package_can_be_made_and_reverted() -> None:
    episode = episode_of(PACKAGE)
    assert (
        episode.call("write_file", {"path": "pkg/sub/new.py", "content": "a = 1\n"}) == "made pkg/sub/new.py (1 lines)"
    )
    assert "* pkg/sub/new.py (1 lines)\n  pkg/tests/test_calc.py (0 lines)\n  setup.cfg" in episode.call("list_files")
    assert episode.call("read_file", {"path": "pkg/data.bin"}).startswith("Error: pkg/data.bin is not text in UTF-8")
    episode.call("write_file", {"path": "pkg/folder.py/new.py", "content": ""})
    assert "below 'pkg/folder.py', which is a file" in episode.call(
        "write_file", {"path": "pkg/folder.py", "content": ""}
    )
    assert episode.call("revert", {"path": "pkg/sub/new.py"}).endswith("was not there at the beginning, and is removed")
    episode.call("write_file", {"path": "pkg/calc.py", "content": ""})
    assert episode.call("read_file", {"path": "pkg/calc.py"}) == "pkg/calc.py is empty"
    assert episode.call("revert", {"path": None}) == "all files are as at the beginning"
    assert episode.workspace.files == PACKAGE.files


def test_a_long_file_is_read_in_parts() -> None:
    lines = [f"line {number} {'x' * 80}" for number in range(1, 301)]
    episode = episode_of(replace(TASK, files={"calc.py": "\n".join(lines).encode()}))
    first = episode.call("read_file", {"path": "calc.py"})
    *shown, last = first.split("\n")
    assert last == f"(calc.py goes on to line 300: read on with start={len(shown) + 1})"
    rest = episode.call("read_file", {"path": "calc.py", "start": len(shown) + 1, "end": 300})
    assert [line.partition("\t")[2] for line in (*shown, *rest.split("\n"))][: len(shown) + 50] == lines[
        : len(shown) + 50
    ]


def test_the_budget_ends_an_episode() -> None:
    short = episode_of(calls=2)
    short.call("list_files")
    assert (short.ended, short.calls_left) == ("", 1)
    short.call("list_files")
    assert (short.ended, short.attempt().files, short.attempt().ended) == ("horizon", None, "horizon")
    poor = episode_of(spent=2.0)
    assert poor.call("list_files", cost=2.0).startswith("Error: 2 of 2 is spent: only submit or give_up is left")
    assert poor.spent == 3.0
    assert poor.call("give_up") == "Nothing is handed in."
    assert (poor.ended, poor.attempt().files) == ("stop", None)
    for cost in (-1, float("nan"), "2", True, 10**400):
        assert "must be a number from 0, below 1,000,000, in cents" in episode_of().call("list_files", cost=cost)
    with pytest.raises(ValueError, match="calls=0 must be at least 1"):
        Budget(calls=0)


def test_messages_are_calls() -> None:
    episode = episode_of()
    assert episode.act('{"tool": "list_files", "cost": 1}').startswith("Files, with a star")
    assert episode.spent == 1.0
    for text in ("hello", "[]", "{}", '{"tool": 3}', "[" * 100_000):
        assert episode.act(text).startswith("Error: a call is a line such as")
    assert episode.transcript[-1].action == "? (refused)"
    assert len(str(episode.transcript[-1].arguments)) <= 2_000


def test_tools_are_described_for_models() -> None:
    for tool in tools.TOOLS:
        compile_schema(tool.parameters, tool.name)
    names = [tool.name for tool in tools.TOOLS]
    by_openai = [one["function"] for one in tools.openai_tools()]
    assert [one["name"] for one in by_openai] == [one["name"] for one in tools.anthropic_tools()] == names
    assert by_openai[3]["parameters"] == tools.anthropic_tools()[3]["input_schema"]
    assert by_openai[3]["parameters"]["required"] == ["path", "old", "new"]
    assert by_openai[1]["description"].endswith("not part of the file. Costs 0.1.")
    assert by_openai[-1]["description"].endswith("Free.")


@pytest.mark.parametrize(
    "told", [b"[" * 99_999, b"{}", b"[3]", b"[{}]", b'[{"passed": 3}]', b'[{"passed":{},"lines":{"a":3},"errors":{}}]']
)
def test_forged_traces_are_no_traces(told: bytes) -> None:
    with pytest.raises(UntracedError, match="could not be traced"):
        spectrum(Answering({"told.json": told}), TASK)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 99_999,
        b"{}",
        b'{"tests": [], "broken": {}}',
        b'{"tests": {"a": {"outcome": "passed", "error": 3}}, "broken": {}}',
    ],
)
def test_a_signed_report_that_cannot_be_read_is_none(body: bytes) -> None:
    signature = hmac.digest(b"key", body, "sha256").hex().encode()
    result = Result(code=0, ended_by="exit", changed={"report": signature + b"\n" + body})
    assert read_report(result, "report", b"key").problem == "the report cannot be read"


def test_the_example_of_the_page_runs(
    zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choose, "open_backend", lambda: Shared(zygote))
    (code,) = [block for block in code_blocks(PAGE, "python") if "TextEpisode" in block]
    exec(code, {})
    shown = capsys.readouterr().out
    assert "Error: there is no file 'nowhere.py'" in shown
    assert shown.endswith("\n1.5 False\n")
