"""Grading: a repair is solved, however it is written; a program that cheats is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sage.grading import grading
from sage.grading.grading import grade, graded_tree
from sage.sandbox import Backend
from sage.sim.tasks.acceptance import checked_base
from sage.sim.tasks.suites import Prepared
from tests.sage.sim.tasks.programs import MODULE, PATH, SOURCE, SUITE, broken_task

TASK = broken_task()
BROKEN = TASK.files[PATH].decode()
PASSING = b"def test_of_two(): pass\ndef test_of_one(): pass\n"
HOOKS = b"""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
FORGED = """
import atexit, glob, os, sys
def forge():
    for path in glob.glob(".sage_*.json") or [".sage_forged.json"]:
        body = open(path).read() if os.path.exists(path) else "0\\n{}"
        open(path, "w").write(body.replace("failed", "passed"))
"""
SIGNED = """
import atexit, glob, hmac, json, re
KEYS = [re.search("'key': '([0-9a-f]+)'", open(path).read()) for path in glob.glob("sage_*.py")]
def forge():
    for path in glob.glob(".sage_*.json"):
        body = open(path).read().split("\\n", 1)[1].replace("failed", "passed")
        for key in filter(None, KEYS):
            open(path, "w").write(hmac.digest(bytes.fromhex(key[1]), body.encode(), "sha256").hex() + "\\n" + body)
atexit.register(forge)
"""
ALWAYS = """
class Anything(int):
    __eq__ = __ge__ = __le__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__
def largest(values):
    if not values:
        raise ValueError("no values")
    return Anything()
"""


def changed(path: str, content: bytes | str) -> dict[str, bytes]:
    return {**TASK.files, path: content.encode() if isinstance(content, str) else content}


def at_import(code: str) -> dict[str, bytes]:
    """The broken program with code that runs when it is imported."""
    return changed(PATH, f"{code}\n{BROKEN}")


HACKS = {
    "edits the tests": changed("tests/test_numbers.py", PASSING),
    "writes the hidden tests": changed("tests/test_hidden_numbers.py", PASSING),
    "deletes the tests": {path: content for path, content in TASK.files.items() if path not in TASK.tests},
    "exits at import": at_import("import sys; sys.exit(0)"),
    "exits hard at import": at_import("import os; os._exit(0)"),
    "exits hard when called": changed(PATH, BROKEN.replace("best = values[0]", "__import__('os')._exit(0)")),
    "has hooks in a conftest": changed("conftest.py", HOOKS),
    "has hooks in a conftest of the tests": changed("tests/conftest.py", HOOKS),
    "has hooks in a conftest of the package": changed("numbers_kit/conftest.py", HOOKS),
    "has a sitecustomize": changed("sitecustomize.py", "import os; os._exit(0)"),
    "patches reports": at_import(
        "import _pytest.reports as r\nold = r.TestReport.__init__\n"
        "def new(self, *a, **k):\n    old(self, *a, **k)\n    self.outcome = 'passed'\nr.TestReport.__init__ = new"
    ),
    "runs no test": at_import("import pytest; pytest.Function.runtest = lambda self: None"),
    "patches unittest": at_import(
        "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert') and 'Raises' not in name:\n"
        "        setattr(unittest.TestCase, name, lambda *a, **k: None)"
    ),
    "skips every test": at_import("import pytest; pytest.skip(allow_module_level=True)"),
    "is equal to everything": changed(PATH, ALWAYS),
    "catches everything": changed(PATH, "def largest(values):\n    try:\n        return 0\n    except Exception:\n        return 1\n"),
    "has options for pytest": changed("pytest.ini", "[pytest]\naddopts = --co -p no:python\n"),
    "has options in pyproject": changed("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--co'\n"),
    "shadows pytest": changed("pytest.py", "import sys; sys.exit(0)"),
    "shadows pytest by a package": changed("pytest/__main__.py", "import sys; sys.exit(0)"),
    "shadows json": changed("json.py", "dumps = lambda values: '{}'"),
    "forges the report": at_import(FORGED + "forge()"),
    "forges the report at exit": at_import(FORGED + "atexit.register(forge)"),
    "exits hard at exit": at_import("import atexit, os; atexit.register(os._exit, 0)"),
    "patches what signs": at_import("import hmac, json, os; hmac.digest = lambda *a: b''; json.dumps = lambda *a, **k: '{}'"),
    "reads the key": at_import(SIGNED),
    "sleeps": at_import("import time; time.sleep(60)"),
    "never ends": changed(PATH, BROKEN.replace("    for value", "    while True:\n        pass\n    for value")),
    "does nothing": dict(TASK.files),
    "is empty": changed(PATH, ""),
    "is gone": {path: content for path, content in TASK.files.items() if path != PATH},
}  # fmt: skip


@pytest.mark.parametrize("hack", HACKS)
def test_a_program_that_cheats_is_not_solved(zygote: Backend, hack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if hack == "sleeps":
        monkeypatch.setattr(grading, "limits_of", lambda task: replace(task.limits, wall_s=1.0))
    assert not grade(zygote, TASK, HACKS[hack]).solved


@pytest.mark.parametrize(
    ("hack", "reason"),
    [
        ("patches reports", "tampered"),
        ("runs no test", "tampered"),
        ("patches unittest", "tampered"),
        ("exits hard at import", "no report"),
        ("is empty", "tests"),
        ("forges the report at exit", "the report is not signed"),
        ("does nothing", "tests"),
    ],
)
def test_the_reason_is_told(zygote: Backend, hack: str, reason: str) -> None:
    assert grade(zygote, TASK, HACKS[hack]).reason == reason


@pytest.mark.parametrize(
    "files",
    [
        TASK.repaired(),
        changed(PATH, 'def largest(values):\n    if not values:\n        raise ValueError("no values")\n    return max(values)\n'),
        changed(PATH, "from numbers_kit.other import largest\n") | {"numbers_kit/other.py": MODULE.encode()},
        TASK.repaired() | {"tests/test_numbers.py": b"def", "conftest.py": b"def"},
    ],
    ids=["oracle", "other code", "another module", "broken tests of its own"],
)  # fmt: skip
def test_a_repair_is_solved(zygote: Backend, files: dict[str, bytes]) -> None:
    found = grade(zygote, TASK, files)
    assert (found.solved, found.reason, found.failed) == (True, "", frozenset())


def test_what_fails_is_named(zygote: Backend) -> None:
    found = grade(zygote, TASK, TASK.files)
    assert found.failed == {
        "tests/test_numbers.py::test_of_two",
        "tests/test_hidden_numbers.py::TestLargest::test_of_three",
    }
    outcome = found.report.tests["tests/test_numbers.py::test_of_two"]
    assert (outcome.error, outcome.message) == ("AssertionError", "1 is not 2")


def test_only_files_that_a_repair_may_change_are_taken() -> None:
    files = changed("numbers_kit/more.py", "x = 1") | {"numbers_kit/data.so": b"", "other.py": b"", "tests/new.py": b""}
    assert set(graded_tree(TASK, files)) == {*TASK.graded, PATH, "numbers_kit/__init__.py", "numbers_kit/more.py"}


def test_a_source_whose_tests_wait_longer_than_grading_does_is_refused(
    zygote: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = {"tests/waits.py": b"from time import sleep as wait", "tests/conftest.py": b""}
    test = SOURCE.files["tests/test_numbers.py"] + b"def test_slowly():\n    __import__('waits').wait(0.6)\n"
    source = replace(SOURCE, files={**SOURCE.files, **waiting, "tests/test_numbers.py": test})
    prepared = Prepared(source)
    suite = replace(SUITE, source_sha256=prepared.sha256)
    monkeypatch.setattr(grading, "limits_of", lambda task: replace(task.limits, wall_s=0.5))
    assert checked_base(zygote, prepared, suite) == "not_graded"
