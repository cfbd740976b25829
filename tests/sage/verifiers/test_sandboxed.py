"""Tests run what a model wrote in a sandbox: right answers pass, wrong and cheating ones do not, and nothing runs without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sage import Router
from sage.cli.doctor import missing_tools
from sage.orchestrator.cascade_rules import CascadeRule
from sage.sandbox import Backend, Command, Files, Limits, Result, SandboxError, choose
from sage.sandbox.contract import EndedBy
from sage.sandbox.image import Image
from sage.verifiers import sandboxed
from sage.verifiers.registry import build
from sage.verifiers.sandboxed import SandboxTests
from sage.verifiers.verifier import Answer, Opinion, VerifierError
from tests.sage.examples import TABLE
from tests.sage.sandbox.backends import opened

CHECKS = """\
import unittest

from answer import add


def test_add():
    assert add(2, 3) == 5


class MoreTestCase(unittest.TestCase):
    def test_texts(self):
        self.assertEqual(add("a", "b"), "ab")
"""
RIGHT = "def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)


@pytest.fixture
def sandbox(zygote: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxed, "OPENED", {})
    monkeypatch.setattr(choose, "open_backend", lambda name: zygote)


class Ending:
    """A backend whose runs end in one way."""

    name = "ending"

    def __init__(self, result: Result) -> None:
        self.result = result

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        return self.result

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("text", "opinion"),
    [
        (RIGHT, Opinion("passed", "all tests passed")),
        (f"Here it is:\n```python\n{RIGHT}```\n", Opinion("passed", "all tests passed")),
        ("def add(a, b):\n    return int(a) + int(b)\n", Opinion("failed", "1 of 2 tests failed")),
        ("def add(a, b):\n    return a - b\n", Opinion("failed", "2 of 2 tests failed")),
        ("I cannot.", Opinion("failed", "2 of 2 tests failed")),
        ("import os\nos._exit(0)", Opinion("failed", "no report")),
        ("raise SystemExit(0)", Opinion("failed", "tampered")),
        ("import pytest\npytest.skip(allow_module_level=True)", Opinion("failed", "tampered")),
        (
            "class All:\n    __eq__ = lambda *_: True\nadd = lambda a, b: All()",
            Opinion("failed", "2 of 2 tests failed"),
        ),
        ("import unittest\nunittest.TestCase.assertEqual = lambda *_: 0\n" + RIGHT, Opinion("failed", "tampered")),
        ("a = 'x' * 10**10", Opinion("failed", "2 of 2 tests failed")),
        ("\udcff", Opinion("failed", "2 of 2 tests failed")),
        ("x = 1\n" * 300_000, Opinion("unknown", "more than 1,000,000 bytes")),
    ],
)
def test_an_answer_is_run(sandbox: None, text: str, opinion: Opinion) -> None:
    assert SandboxTests({"test_add.py": CHECKS}).verify(Answer(text=text)) == opinion


def test_a_command_counts_by_its_exit_code(sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "check.sh").write_text('test "$(cat out/answer.txt)" = 42')
    settings = {"files": ["checks"], "command": "sh checks/check.sh", "answer_file": "out/answer.txt"}
    checks = build("tests", settings)
    assert checks.verify(Answer(text="42\n")) == Opinion("passed", "sh ended with code 0")
    assert checks.verify(Answer(text="41")) == Opinion("failed", "sh ended with code 1")
    own = build("tests", {"command": ["python", "answer.py"]})
    assert own.verify(Answer(text="open('/etc/passwd', 'w')")) == Opinion("failed", "python ended with code 1")


def test_a_command_that_is_not_in_the_sandbox_says_nothing_about_an_answer(sandbox: None) -> None:
    assert SandboxTests(command="nowhere answer.py").verify(Answer(text=RIGHT)).verdict == "unknown"


@pytest.mark.parametrize(
    "checks",
    [
        "class Base(unittest.TestCase):\n    pass\n\nclass Sums(Base):\n    def test_sum(self):\n        assert add(2, 3) == 5\n",
        "class Sums:\n    def test_sum(self):\n        assert add(2, 3) == 5\n\nclass TestSums(Sums):\n    pass\n",
        "if True:\n    def test_sum():\n        assert add(2, 3) == 5\n",
        "from answer import subtract\n",
    ],
)
def test_a_wrong_answer_does_not_pass_by_tests_that_only_pytest_finds(sandbox: None, checks: str) -> None:
    begin = "import unittest\n\nfrom answer import add\n\n\ndef test_nothing():\n    pass\n"
    files = {"test_known.py": begin, "test_found.py": begin.replace("def test_nothing", "def nothing") + checks}
    wrong = SandboxTests(files).verify(Answer(text="def add(a, b):\n    return a - b\n"))
    assert wrong == Opinion("failed", "1 of 2 tests failed")
    right = SandboxTests(files).verify(Answer(text=RIGHT + "\n\ndef subtract(a, b):\n    return a - b\n"))
    assert right == Opinion("passed", "all tests passed")


@pytest.mark.parametrize(
    ("ended_by", "verdict"), [("cpu_s", "failed"), ("memory", "failed"), ("broken", "unknown"), ("wall_s", "unknown")]
)
def test_a_run_that_is_ended_does_not_pass(monkeypatch: pytest.MonkeyPatch, ended_by: EndedBy, verdict: str) -> None:
    """The answer failed if it used too much; a sandbox that failed, or a busy machine, says nothing about it."""
    monkeypatch.setattr(sandboxed, "OPENED", {})
    monkeypatch.setattr(choose, "open_backend", lambda name: Ending(Result(code=None, ended_by=ended_by)))
    for checks in (SandboxTests({"test_add.py": CHECKS}), SandboxTests({}, command="true")):
        opinion = checks.verify(Answer(text=RIGHT))
        assert (opinion.verdict, ended_by in opinion.source) == (verdict, True)


def test_nothing_is_run_where_no_sandbox_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(name: str) -> Backend:
        asked.append(name)
        raise SandboxError("none works")

    monkeypatch.setattr(sandboxed, "OPENED", {})
    monkeypatch.setattr(choose, "open_backend", refuse)
    path = tmp_path / "made"
    text = f"open({str(path)!r}, 'w').close()"
    checks = SandboxTests({"test_add.py": CHECKS}, sandbox="bubblewrap")
    for _ in range(2):
        assert checks.verify(Answer(text=text)) == Opinion("unknown", "nothing was run: none works")
    assert asked == ["bubblewrap"]  # and it is not tried again for every answer
    assert not path.exists()
    rule = CascadeRule(ladder=("small",), verifiers={"tests": checks})
    assert missing_tools(rule) == ["a sandbox for tests (see `sage doctor --sandboxes`)"]


def test_a_cascade_runs_the_tests_of_its_task(sandbox: None, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        TABLE + "cascade:\n  default:\n    ladder: [small, medium]\n    exploration: 0\n"
    )
    checks = SandboxTests({"test_add.py": CHECKS})
    with Router.open(tmp_path / "log.db", models=tmp_path / "models.yaml", environment={}) as router:
        task = router.cascade(verifiers={"tests": checks}, role="coder", task="write add(a, b)")
        answers = iter(["def add(a, b):\n    return a\n", RIGHT])
        verdicts = [task.report(next(answers), cost_usd=0.01) for _ in task]
    assert verdicts == ["failed", "passed"]
    assert task.answer == RIGHT


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"files": "test_add.py"}, "tests.files='test_add.py' must be a list of files and folders"),
        ({"files": {"test_add.py": 3}}, "tests.files={'test_add.py': 3} must be a list of files"),
        ({"files": ["none.py"]}, "tests.files: 'none.py' is not there, seen from "),
        (
            {"files": ["test_add.py"], "answer_file": "test_add.py"},
            "must be a name for the answer that is none of the files",
        ),
        ({"files": ["test_add.py"], "answer_file": "conftest.py"}, "tests.answer_file='conftest.py' must be"),
        (
            {"files": ["test_add.py"], "answer_file": "../x.py"},
            r"tests: the path '\.\./x\.py' must be relative and plain",
        ),
        ({"files": ["test_add.py"], "sandbox": "host"}, "tests.sandbox='host' must be one of auto, zygote, bubblewrap"),
        ({"files": ["test_add.py"], "sandbox": []}, "must be one of auto"),
        ({"files": ["test_add.py"], "time_limit_s": True}, "tests.time_limit_s=True must be a number above 0"),
        ({"files": ["test_add.py"], "memory_mb": 0}, "tests.memory_mb=0 must be a number above 0"),
        ({"files": ["broken/test_broken.py"]}, "tests.files: test_broken.py is not Python"),
        ({"files": ["test_add.py", "other/test_add.py"]}, "tests.files: two files are called 'test_add.py'"),
        ({"files": {"large.bin": bytes(70_000_000)}}, "tests.files have 70,000,000 bytes, and may have 67,108,864"),
        ({"files": ["data.txt"]}, "tests.files has no test function in a file"),
        ({"command": "'a"}, 'tests.command="\'a" must be a command for the sandbox'),
        ({"memory_mb": 100}, "tests has settings and nothing to run: add tests.files"),
        ({"command": []}, r"tests.command=\[\] must be a command"),
    ],
)
def test_settings_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "test_broken.py").write_text("def f(:")
    (tmp_path / "test_add.py").write_text(CHECKS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "test_add.py").write_text(CHECKS)
    (tmp_path / "data.txt").write_text("x")
    with pytest.raises(VerifierError, match=sentence):
        build("tests", settings)
