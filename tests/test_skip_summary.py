"""A run of tests ends with a line for every reason why tests were skipped."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="needs a moon: wait for the night")
@pytest.mark.parametrize("number", range(3))
def test_marked(number): ...

def test_called():
    pytest.skip("needs a moon: wait for the night")

@pytest.fixture
def ladder():
    pytest.skip("needs a ladder: buy one")

def test_fixture(ladder): ...

@pytest.mark.xfail(reason="it is known")
def test_expected(): assert False
"""
WHOLE = (
    'import pytest\npytest.importorskip("no_such_package", reason="needs a package: make setup")\ndef test_a(): ...\n'
)


def summary(folder: Path, *words: str) -> list[str]:
    words = (sys.executable, "-m", "pytest", "-q", "-p", "tests.skip_summary", "-p", "no:cacheprovider", *words)
    env = {**os.environ, "PYTHONPATH": str(TESTS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # which take seconds
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "needs" in line or "skipped:" in line]


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "1")], ids=["one process", "xdist"])
def test_every_reason_has_a_line_with_its_number(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name, text in {"test_few": SKIPS, "test_whole": WHOLE, "test_other": WHOLE}.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert summary(tmp_path, *words) == [
        "1 test skipped: needs a ladder: buy one",
        "4 tests skipped: needs a moon: wait for the night",
        "2 test files skipped: needs a package: make setup",
    ]


def test_nothing_is_said_where_nothing_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text("def test_a(): ...\n")
    assert summary(tmp_path) == []


def skip_reasons(tree: ast.AST) -> Iterator[ast.expr | None]:
    """Yields the reasons of all calls of pytest.skip, skipif and importorskip; None for a call without one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("skip", "skipif", "importorskip") and ast.unparse(node.func).startswith("pytest."):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            first = node.args[:1] if node.func.attr == "skip" else []
            yield next(iter(given + first), None)


def test_every_reason_says_what_is_needed_and_where_the_test_would_run() -> None:
    found = [
        (path.relative_to(TESTS), reason)
        for path in TESTS.rglob("*.py")
        if "pytest.skip" in (text := path.read_text(encoding="utf-8")) or "skipif" in text or "importorskip" in text
        for reason in skip_reasons(ast.parse(text))
    ]
    assert len(found) > 20
    for path, reason in found:
        written = "" if reason is None else ast.unparse(reason).lstrip("f")
        named = written.startswith(("needs.", "package(", "missing"))
        assert named or (written[1:].startswith("needs ") and ": " in written), f"{path}: {written or 'no reason'}"
