"""The rules of `rl_base`, which runs in a proxy that has neither PyTorch nor rl_training."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_base
from tests.test_architecture import (
    Check,
    failures_are_not_swallowed,
    imported_modules,
    libraries_log_and_commands_print,
    no_module_is_of_one_system,
    nothing_is_pickled,
    private_names_stay_in_their_file,
    texts_are_in_utf8,
)

ROOT = Path(rl_base.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
OF_COMMANDS = ("shown_warnings.py", "standard_streams.py")  # which print, and know loggers by the names they are given


def it_needs_numpy_and_yaml_alone(path: str, tree: ast.Module) -> Iterator[str]:
    known = {*sys.stdlib_module_names, "numpy", "rl_base", "yaml"}
    yield from (f"imports {module}" for module in imported_modules(tree) if module.split(".")[0] not in known)


CHECKS: tuple[Check, ...] = (
    failures_are_not_swallowed,
    it_needs_numpy_and_yaml_alone,
    libraries_log_and_commands_print,
    no_module_is_of_one_system,
    nothing_is_pickled,
    private_names_stay_in_their_file,
    texts_are_in_utf8,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_source_keeps_the_rule(check: Check) -> None:
    ours = [path for path in SOURCES if not (check is libraries_log_and_commands_print and path in OF_COMMANDS)]
    assert [f"{path}: {finding}" for path in ours for finding in check(path, ast.parse(SOURCES[path]))] == []


@pytest.mark.parametrize("source", ["import torch", "def f():\n    from rl_training.core import Policy", "import sage"])
def test_the_check_finds_a_breach(source: str) -> None:
    assert list(it_needs_numpy_and_yaml_alone("evaluation/x.py", ast.parse(source)))


def test_files_stay_readable() -> None:
    sizes = {path: len(text.splitlines()) for path, text in SOURCES.items()}
    assert {path: size for path, size in sizes.items() if size > 400} == {}
