"""Starts `python -m rl_training` as a process of its own, the way a user does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from rl_training.cli import main
from rl_training.experiment import load_checkpoint
from rl_training.experiment.checkpoint import difference
from tests.forked import Program, run_module, start_module

COMMAND = [sys.executable, "-m", "rl_training"]


def call(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end, in a process that need not import torch first."""
    return run_module("rl_training", *arguments, cwd=cwd)


def call_all(commands: list[list[str]], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs several commands one after the other, each in a process of its own, as long as they succeed."""
    output = errors = ""
    for command in commands:
        done = call(*command, cwd=cwd)
        output, errors = output + done.stdout, errors + done.stderr
        if done.returncode:
            return subprocess.CompletedProcess(command, done.returncode, output, errors)
    return subprocess.CompletedProcess(commands, 0, output, errors)


def train_undisturbed(folder: Path, config: str) -> Path:
    """Writes `my.yaml` and trains from it in this process: the run that interrupted ones are compared with."""
    (folder / "my.yaml").write_text(config)
    assert main(["train", str(folder / "my.yaml"), "--run-dir", str(folder / "reference"), "--quiet"]) == 0
    return folder / "reference"


def start_to_kill(*arguments: object, cwd: Path) -> Program:
    """Starts a command in a process that need not import torch first, and goes on."""
    return start_module("rl_training", *arguments, cwd=cwd)


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Starts a command in a process group of its own, as a shell does, and goes on."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_checkpoint(run_dir: Path, after: int, process: subprocess.Popen[str] | Program) -> int:
    """Waits until a run has a checkpoint beyond `after` steps and returns where it stands."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        newest = last_step(run_dir)
        if newest > after:
            return newest
        assert process.poll() is None, f"the run ended before it could be stopped: {process.communicate()}"
        time.sleep(0.005)
    raise AssertionError(f"no checkpoint beyond step {after} within a minute")


def last_step(run_dir: Path) -> int:
    return max((int(path.name[5:]) for path in (run_dir / "checkpoints").glob("step-*")), default=0)


def read_jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def state_difference(a: Path, b: Path) -> str | None:
    """The first place where the last checkpoints of two runs differ, the clock apart."""
    states = []
    for run_dir in (a, b):
        state = load_checkpoint(max((run_dir / "checkpoints").glob("step-*"))).state
        del state["progress"]["wall_time"]
        states.append(state)
    return difference(states[0], states[1])
