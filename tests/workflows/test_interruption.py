"""Signals, kill -9 and two processes at once, on real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from subprocess import Popen

import pytest

import rl_training.cli
from rl_base import file_lock
from rl_training.cli import main
from tests.cli.process import (
    call,
    last_step,
    read_jsonl,
    start,
    start_to_kill,
    state_difference,
    train_undisturbed,
    wait_for_checkpoint,
)
from tests.forked import Program

INTERVAL = 1_000
CONFIG = f"""
algorithm: {{name: ppo, n_steps: 64, batch_size: 128, n_epochs: 1}}
env: {{id: CartPole-v1, n_envs: 4}}
training: {{total_timesteps: 16000, seed: 3, threads: 1, compile: false, log_interval: 1000}}
evaluation: {{interval: 4000, episodes: 2}}
checkpoint: {{interval: {INTERVAL}, keep: 2}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("interruption")


@pytest.fixture(scope="module")
def reference(folder) -> Path:
    return train_undisturbed(folder, CONFIG)


def assert_logs_equal(run_dir: Path, reference: Path) -> None:
    assert (run_dir / "episodes.jsonl").read_text() == (reference / "episodes.jsonl").read_text()
    evaluations = [
        [row for row in read_jsonl(path / "metrics.jsonl") if "eval/returns" in row] for path in (run_dir, reference)
    ]
    assert evaluations[0] == evaluations[1]
    steps = [row["timesteps"] for row in read_jsonl(run_dir / "metrics.jsonl") if "train/loss" in row]
    assert steps == sorted(set(steps))


def test_kill_9_loses_at_most_one_interval(folder, reference):
    run_dir, moments = folder / "killed", random.Random(0)
    process, resumed_from = start_to_kill("train", "my.yaml", "--run-dir", "killed", cwd=folder), 0
    for kill in range(3):
        wait_for_checkpoint(run_dir, resumed_from, process)
        if kill == 0 and file_lock.fcntl is not None:
            refuse_second_process(folder, run_dir, process)
        time.sleep(moments.uniform(0, 0.15))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        resumed_from = last_step(run_dir)
        written = [json.loads(line)["timesteps"] for line in whole_lines(run_dir / "episodes.jsonl")]
        assert max(written) <= resumed_from + INTERVAL
        process = start_to_kill("resume", "killed", cwd=folder)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "finished: 16,000 env steps" in output
    assert state_difference(run_dir, reference) is None
    assert_logs_equal(run_dir, reference)
    assert not [path for path in run_dir.rglob(".*") if path.name != ".lock"]  # nothing half-written is left
    checkpoints = sorted(path.name for path in (run_dir / "checkpoints").iterdir())
    assert checkpoints == sorted(path.name for path in (reference / "checkpoints").iterdir())


def whole_lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def stop(pid: int) -> None:
    """Sends SIGSTOP, and returns once every thread has stopped: a signal that was sent need not have arrived."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while tasks.exists() and any(
        path.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "T" for path in tasks.glob("*/stat")
    ):
        time.sleep(0.001)


def refuse_second_process(folder: Path, run_dir: Path, process) -> None:
    """Two processes on one run directory: the second is told who holds it, the first goes on."""
    stop(process.pid)  # so that it cannot finish meanwhile
    before = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")}
    done = call("resume", "killed", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    sentence = (
        f"error: run directory {run_dir.resolve()} is in use by process {process.pid}: wait for it, or choose another"
    )
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")} == before
    os.kill(process.pid, signal.SIGCONT)
    wait_for_checkpoint(run_dir, last_step(run_dir), process)


def test_sigterm_and_sigint_pause_with_a_checkpoint(folder, reference):
    run_dir = folder / "signalled"
    process: Popen[str] | Program = start("train", "my.yaml", "--run-dir", "signalled", cwd=folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        wait_for_checkpoint(run_dir, last_step(run_dir), process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert f"why: {number.name}" in output
        assert f"continue with: rl-training resume {run_dir.resolve()}" in output
        result = json.loads((run_dir / "result.json").read_text())
        assert (result["status"], result["reason"]) == ("paused", number.name)
        assert result["total_timesteps"] == last_step(run_dir)  # the checkpoint is of the very last step
        process = start_to_kill("resume", "signalled", cwd=folder)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert state_difference(run_dir, reference) is None
    assert_logs_equal(run_dir, reference)
    before = [sorted((run_dir / name).read_text().splitlines()) for name in ("metrics.jsonl", "episodes.jsonl")]
    assert main(["resume", str(run_dir), "--quiet"]) == 0  # a finished run stays as it is
    assert [sorted((run_dir / n).read_text().splitlines()) for n in ("metrics.jsonl", "episodes.jsonl")] == before
    assert json.loads((run_dir / "result.json").read_text())["status"] == "finished"


def test_control_c_reaches_async_workers_too_and_still_pauses(folder):
    """A terminal sends SIGINT to the whole process group."""
    (folder / "async.yaml").write_text(CONFIG.replace("n_envs: 4", "n_envs: 2, vectorization: async"))
    process = start("train", "async.yaml", "--run-dir", "async", cwd=folder)
    wait_for_checkpoint(folder / "async", 0, process)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "why: SIGINT" in output


def test_a_run_killed_before_its_first_checkpoint_starts_again(folder, reference):
    run_dir = folder / "early"
    assert main(["train", str(folder / "my.yaml"), "--run-dir", str(run_dir), "--quiet", "--stop-at", "400"]) == 0
    for checkpoint in (run_dir / "checkpoints").iterdir():  # as if it had been killed at step 400
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    assert main(["resume", str(run_dir), "--quiet", "--stop-at", "800"]) == 0
    rows = read_jsonl(run_dir / "episodes.jsonl")
    assert rows == [row for row in read_jsonl(reference / "episodes.jsonl") if row["timesteps"] <= 800]


def test_control_c_while_the_command_line_is_imported_is_one_line(monkeypatch, capsys) -> None:
    class Interrupted:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "rl_training.cli.doctor":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "rl_training.cli.doctor", raising=False)
    monkeypatch.delattr(rl_training.cli, "doctor", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
