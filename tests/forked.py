"""Runs programs in processes of their own that start at once: forked from one that has imported torch already.

A program sees what it would see if it had been started: its folder, arguments, standard streams and exit code. What is
about the start itself, or about signals, starts Python instead (`tests/cli/process.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

LIMIT = 240  # seconds
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["rl_training.api", "rl_training.cli.commands", "rl_training.evaluation"])


def run_script(script: Path, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python SCRIPT`, to its end."""
    return run("script", [str(script)], cwd)


def run_module(name: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m NAME ARGUMENTS`, to its end."""
    return run("module", [name, *map(str, arguments)], cwd)


def run(kind: Literal["script", "module"], words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        process = CONTEXT.Process(target=enter, args=(kind, words, cwd, output, errors))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, LIMIT, output.read_text(), errors.read_text())
        return subprocess.CompletedProcess(words, process.exitcode, output.read_text(), errors.read_text())


def enter(kind: Literal["script", "module"], words: list[str], cwd: Path, output: Path, errors: Path) -> None:
    for number, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent if kind == "script" else cwd))
    if kind == "script":
        runpy.run_path(words[0], run_name="__main__")
    else:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
