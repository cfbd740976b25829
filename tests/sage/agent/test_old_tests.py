"""A change is judged by the tests as they were before the run: what a model does to its judge does not count."""

from __future__ import annotations

import pytest

from sage.agent.old_tests import OldTests
from sage.agent.pytest_words import named_files, pytest_command
from sage.agent.tools import LIMITS
from sage.sandbox import Backend

COMMAND = ("python", "-m", "pytest", "-q")
RIGHT = b"def add(a, b):\n    return a + b\n"
WRONG = b"def add(a, b):\n    return a - b\n"
TESTS = b"""from helpers import same
from calc import add

def test_add():
    assert add(2, 3) == 5

def test_same():
    assert same(add(1, 1), 2)
"""
FILES = {
    "calc.py": RIGHT,
    "tests/test_calc.py": TESTS,
    "tests/helpers.py": b"def same(a, b):\n    return a == b\n",
    "notes.txt": b"",
}
EXIT = b"import os\nos._exit(0)\n"
PASSES = b"def test_add():\n    pass\n\ndef test_same():\n    pass\n"
ADDOPTS = b"[pytest]\naddopts = --collect-only\n"
EQUAL_TO_ALL = (
    b"class A(int):\n    __eq__ = lambda a, b: True\n    __hash__ = int.__hash__\ndef add(a, b):\n    return A()\n"
)
HACKS: dict[str, dict[str, bytes | None]] = {
    "nothing": {},
    "exits in a conftest": {"conftest.py": EXIT},
    "exits in a conftest of the tests": {"tests/conftest.py": EXIT},
    "has a hook in a conftest": {"conftest.py": b"def pytest_collection_modifyitems(items):\n    items.clear()\n"},
    "exits at the start of Python": {"sitecustomize.py": EXIT},
    "has pytest.ini": {"pytest.ini": ADDOPTS},
    "has tox.ini": {"tox.ini": ADDOPTS},
    "has setup.cfg": {"setup.cfg": ADDOPTS.replace(b"[pytest]", b"[tool:pytest]")},
    "has pyproject.toml": {"pyproject.toml": b"[tool.pytest.ini_options]\naddopts = '--collect-only'\n"},
    "edits a test": {"tests/test_calc.py": PASSES},
    "deletes a test": {"tests/test_calc.py": None},
    "skips a test": {"tests/test_calc.py": b"import pytest\npytest.skip(allow_module_level=True)\n"},
    "expects a test to fail": {"tests/test_calc.py": b"import pytest\npytestmark = pytest.mark.xfail\n" + TESTS},
    "edits what tests import": {"tests/helpers.py": b"def same(a, b):\n    return True\n"},
    "makes a file of the folder": {"tests": b"", "tests/test_calc.py": None, "tests/helpers.py": None},
    "patches the program in a new test": {"test_a.py": b"import calc\ncalc.add = int.__add__\ndef test_a(): ...\n"},
    "shadows pytest": {"pytest.py": b"import sys\nsys.exit(0)\n"},
    "shadows what signs": {"hmac.py": b"digest = lambda *words: b''\n"},
    "has a plugin that is installed": {
        "evil.egg-info/entry_points.txt": b"[pytest11]\nevil = evil\n",
        "evil.py": b"import pytest\npytest.Function.runtest = lambda self: None\n",
    },
    "exits at import": {"calc.py": EXIT + WRONG},
    "prints a summary and exits": {"calc.py": b"print('2 passed in 0.01s')\n" + EXIT},
    "skips at import": {"calc.py": b"import pytest\npytest.skip(allow_module_level=True)\n"},
    "runs no test": {"calc.py": b"import pytest\npytest.Function.runtest = lambda self: None\n" + WRONG},
    "is equal to everything": {"calc.py": EQUAL_TO_ALL},
}  # fmt: skip


def changed(changes: dict[str, bytes | None], calc: bytes = WRONG) -> dict[str, bytes]:
    files = FILES | {"calc.py": calc} | changes
    return {path: content for path, content in files.items() if content is not None}


@pytest.fixture(scope="module")
def old_tests(sandbox: Backend) -> OldTests:
    found = OldTests(sandbox, FILES, COMMAND, LIMITS)
    assert found.problem == ""
    assert found.expected == {"tests/test_calc.py::test_add": 1, "tests/test_calc.py::test_same": 1}
    return found


@pytest.mark.parametrize("hack", HACKS)
def test_a_wrong_program_does_not_pass(old_tests: OldTests, hack: str) -> None:
    found = old_tests.result_of(changed(HACKS[hack]))
    assert found.reason != ""
    assert not found.broken


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"calc.py": b"from other import add\n", "other.py": RIGHT},
        {"tests/test_calc.py": TESTS + b"\ndef test_more():\n    assert add(0, 0) == 0\n", "conftest.py": b"# new\n"},
        {"tests/test_calc.py": b"def", "tests/test_double.py": b"import nothing", "conftest.py": EXIT},
    ],
    ids=["as before", "another module", "more tests", "broken tests of its own"],
)
def test_a_right_program_passes(old_tests: OldTests, changes: dict[str, bytes | None]) -> None:
    assert old_tests.result_of(changed(changes, RIGHT)).reason == ""


def test_a_model_is_told_what_fails_and_what_does_not_count(old_tests: OldTests) -> None:
    told = old_tests.result_of(changed({"tests/test_calc.py": PASSES})).reason
    assert "- tests/test_calc.py::test_add: AssertionError -1 is not 5" in told
    assert "What was changed in tests/test_calc.py does not count." in told


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-x",), 2),
        (("-k", "test_add"), 1),
        (("-k", "not test_add", "-x"), 1),
        (("tests/test_calc.py::test_add",), 1),
    ],
)
def test_options_of_the_command_are_kept(sandbox: Backend, words: tuple[str, ...], expected: int) -> None:
    found = OldTests(sandbox, FILES, (*COMMAND, *words), LIMITS)
    assert (found.problem, len(found.expected)) == ("", expected)
    assert found.result_of(changed({}, RIGHT + b"\n")).reason == ""
    assert "test_" in found.result_of(changed({})).reason


def test_tests_that_could_not_be_collected_must_pass_later(sandbox: Backend) -> None:
    """The usual case of a test that is there before what it tests, here in another encoding."""
    files = FILES | {"calc.py": b"", "tests/test_calc.py": b"# coding: latin-1\n# \xe9\n" + TESTS}
    found = OldTests(sandbox, files, COMMAND, LIMITS)
    assert found.problem == ""
    assert found.result_of(changed({}, RIGHT)).reason == ""
    assert "tests/test_calc.py" in found.result_of(changed({"calc.py": b"add = None\n"})).reason
    assert "they were skipped" in found.result_of(changed(HACKS["skips at import"])).reason


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"calc.py": RIGHT}, "there were no tests before the run"),
        ({"test_a.py": b"import pytest\n@pytest.mark.skip\ndef test_a(): ...\n"}, "all tests were skipped"),
        ({"test_a.py": EXIT}, "pytest ends without a report on the repository as it is (no report)"),
        (
            {"calc.py": RIGHT + b"def test_a(): ...\n", "pytest.ini": b"[pytest]\npython_files = *.py\n"},
            "tests cannot be told from the program: calc.py has tests and is not named like a test file",
        ),
    ],
)  # fmt: skip
def test_tests_that_cannot_judge_are_named(sandbox: Backend, files: dict[str, bytes], problem: str) -> None:
    assert problem in OldTests(sandbox, files, COMMAND, LIMITS).problem


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("pytest -q tests", "python -m pytest -q tests"),
        ("/venv/bin/py.test", "python -m pytest"),
        ("python3.12 -X dev -m pytest", "python3.12 -X dev -m pytest"),
        ("uv run pytest -x", "uv run python -m pytest -x"),
        ("uv run --frozen python -m pytest", "uv run --frozen python -m pytest"),
        ("env A=b pytest", "env A=b python -m pytest"),
        ("make test", None),
        ("tox", None),
        ("sh -c pytest", None),
        ("echo pytest", None),
        ("python -c pytest -m pytest", None),
        ("python run.py -m pytest", None),
        ("python -m unittest", None),
        ("coverage run -m pytest", None),
        ("uv run", None),
    ],
)
def test_commands_of_pytest_are_told_from_others(words: str, command: str | None) -> None:
    assert pytest_command(tuple(words.split())) == (None if command is None else tuple(command.split()))


def test_files_that_a_command_names_belong_to_the_judge() -> None:
    words = ("python", "-m", "pytest", "-c", "ci/own.ini", "-p", "tools.plug", "@args")
    assert named_files(words) >= {"ci/own.ini", "tools/plug.py", "args"}
