"""kill -9 while a checkpoint with a replay is being written: nothing that was saved is lost."""

from __future__ import annotations

import random
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from rl_training.experiment import load_checkpoint
from tests.cli.process import last_step, start_to_kill, state_difference, train_undisturbed, wait_for_checkpoint
from tests.forked import Program

KILLS = 2
INTERVAL = 100
CONFIG = f"""
algorithm: {{name: dqn, buffer_size: 600, learning_starts: 100, train_freq: 8, prioritized: true, n_steps: 3}}
env: {{id: CartPole-v1, n_envs: 2}}
training: {{total_timesteps: 2000, seed: 3, threads: 1, compile: false, log_interval: 1000}}
evaluation: {{interval: 0, episodes: 1}}
checkpoint: {{interval: {INTERVAL}, keep: 3}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("replay_interruption")


@pytest.fixture(scope="module")
def reference(folder) -> Path:
    return train_undisturbed(folder, CONFIG)


def wait_for_writing(run_dir: Path, process: Program) -> None:
    """Waits until a checkpoint has been begun that has not got its name yet."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any((run_dir / "checkpoints").glob(".*.tmp-*")):
            return
        assert process.poll() is None, f"the run ended before it could be killed: {process.communicate()}"
    raise AssertionError("no checkpoint was written within a minute")


def good_checkpoints(run_dir: Path) -> list[int]:
    """The steps of all checkpoints that have a name; loading one verifies it, its rows included."""
    names = [path for path in run_dir.rglob("manifest.json") if not path.parent.name.startswith(".")]
    steps = []
    for manifest in names:
        checkpoint = load_checkpoint(manifest.parent)
        log = checkpoint.state["experience"]["rows"]
        written = checkpoint.state["experience"]["written"]
        assert len(log.live()["reward"]) == int((written - log.oldest).sum())  # no row is missing
        steps.append(checkpoint.timesteps)
    return sorted(steps)


def test_kill_9_while_a_replay_is_saved(folder, reference) -> None:
    run_dir, moments = folder / "killed", random.Random(1)
    process, before = start_to_kill("train", "my.yaml", "--run-dir", "killed", cwd=folder), 0
    unfinished = 0
    for _ in range(KILLS):
        before = wait_for_checkpoint(run_dir, before + INTERVAL, process)
        wait_for_writing(run_dir, process)
        time.sleep(moments.uniform(0, 0.002))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        unfinished += any((run_dir / "checkpoints").glob(".*.tmp-*"))
        steps = good_checkpoints(run_dir)
        assert steps[-1] == last_step(run_dir) >= before
        before = steps[-1]
        process = start_to_kill("resume", "killed", cwd=folder)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert unfinished  # at least one was killed in the middle of it
    assert good_checkpoints(run_dir)[-1] == 2000
    assert state_difference(run_dir, reference) is None
    assert not [path for path in run_dir.rglob(".*") if path.name != ".lock"]  # nothing half-written is left


def test_checkpoints_share_what_is_old(reference) -> None:
    """Three are kept, and what they have in common is on the disk once."""
    checkpoints = sorted((reference / "checkpoints").glob("step-*"))
    assert len(checkpoints) == 3
    inodes = [{file.stat().st_ino for file in path.glob("rows-*")} for path in checkpoints]
    assert all(len(a & b) >= 4 for a, b in pairwise(inodes))
