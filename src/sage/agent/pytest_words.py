"""Recognition of commands that start pytest."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

LAUNCHERS = {(program, "run") for program in ("hatch", "pdm", "pipenv", "poetry", "rye", "uv")}
PYTHON = re.compile(r"python[0-9.]*")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
WITH_A_VALUE = {"-X", "-W"}


def pytest_command(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Returns the command in the form `python -m pytest`.

    None if it starts another program, which may start pytest or not.
    """
    start = 2 if words[:2] in LAUNCHERS else 0
    if words[0] == "env":
        start = 1
        while start < len(words) and ASSIGNMENT.fullmatch(words[start]):
            start += 1
    launcher, rest = words[:start], words[start:]
    while launcher and launcher[0] != "env" and rest and rest[0].startswith("-"):
        launcher, rest = (*launcher, rest[0]), rest[1:]
    program = PurePosixPath(rest[0]).name if rest else ""
    if program in ("pytest", "py.test"):
        return (*launcher, "python", "-m", "pytest", *rest[1:])
    return words if PYTHON.fullmatch(program) and runs_pytest(rest[1:]) else None


def runs_pytest(words: tuple[str, ...]) -> bool:
    """Returns True if these words behind `python` start pytest."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c", "-"):
        place += 2 if words[place] in WITH_A_VALUE else 1
    return words[place : place + 2] == ("-m", "pytest")


def named_files(command: tuple[str, ...]) -> set[str]:
    """Returns the paths of settings, plugins and files of arguments that a pytest command names."""
    found = set()
    for word, following in zip(command, (*command[1:], ""), strict=True):
        if word.startswith("@"):
            found.add(word[1:])
        elif word in ("-c", "--config-file", "-p"):
            found.add(following)
        elif word.startswith(("-c", "-p")) and not word.startswith("--"):
            found.add(word[2:])
        elif word.startswith("--config-file="):
            found.add(word.partition("=")[2])
    modules = {name.replace(".", "/") for name in found}
    return found | {f"{name}{ending}" for name in modules for ending in (".py", "/__init__.py")}
