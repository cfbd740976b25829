"""Runs programs in processes of their own that start at once: forked from one that has imported torch already.

A program sees what it would see if it had been started: its folder, arguments, standard streams and exit code. What is
about the start itself, or about signals that a program can catch, starts Python instead (`tests/cli/process.py`).
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

Kind = Literal["script", "module"]
LIMIT = 240  # seconds
CONTEXT = multiprocessing.get_context("forkserver")
# What commands import when they run, too: pictures and TensorBoard's events take longer than most runs here.
PRELOADED = ["matplotlib.figure", "torch.utils.tensorboard", "rl_training.distributed.sampler_process"]
PRELOADED += ["rl_training.api", "rl_training.cli.commands", "rl_training.cli.seeds"]
CONTEXT.set_forkserver_preload(PRELOADED)


def run_script(script: Path, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python SCRIPT`, to its end."""
    return run("script", [str(script)], cwd)


def run_module(name: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m NAME ARGUMENTS`, to its end."""
    return run("module", [name, *map(str, arguments)], cwd)


def start_module(name: str, *arguments: object, cwd: Path) -> Program:
    """`python -m NAME ARGUMENTS`, which goes on while the test does."""
    return Program("module", [name, *map(str, arguments)], cwd)


def run(kind: Kind, words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    program = Program(kind, words, cwd)
    output, errors = program.communicate()
    return subprocess.CompletedProcess(words, program.returncode, output, errors)


class Program:
    """A program under way, asked as a `subprocess.Popen` is."""

    def __init__(self, kind: Kind, words: list[str], cwd: Path) -> None:
        self.words, self.folder = words, tempfile.TemporaryDirectory()
        self.output, self.errors = Path(self.folder.name) / "output", Path(self.folder.name) / "errors"
        self.process = CONTEXT.Process(target=enter, args=(kind, words, cwd, self.output, self.errors))
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self.process.kill()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = LIMIT) -> tuple[str, str]:
        """Waits for the end, and returns what was written to both streams."""
        self.process.join(timeout)
        written = self.output.read_text(), self.errors.read_text()
        if self.returncode is None:
            self.kill()
            self.process.join()
            raise subprocess.TimeoutExpired(self.words, timeout, *written)
        return written


def enter(kind: Kind, words: list[str], cwd: Path, output: Path, errors: Path) -> None:
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
