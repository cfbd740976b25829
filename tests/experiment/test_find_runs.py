"""Runs as they are read back from their directories, found, filtered, sorted and compared."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import rl_training
from rl_base import file_lock
from rl_training.experiment import RunDirectory, RunRecord
from rl_training.experiment.find_runs import differing_settings, runs
from tests import needs

CONFIG = {"algorithm": {"name": "ppo", "gamma": 0.99}, "env": {"id": "CartPole-v1"}, "training": {"seed": 0}}


def write_run(path: Path, *, seed: int = 0, result: dict | None = None, rows: tuple = (), **changes: dict) -> Path:
    """A run directory as a run leaves it, as far as it is read back."""
    (path / "checkpoints").mkdir(parents=True)
    config = CONFIG | {"training": {"seed": seed}} | changes
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "metadata.json").write_text(json.dumps({"started": f"2026-01-0{1 + seed % 9}T00:00:00+0000"}))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if result is not None:
        known = {"algorithm": config["algorithm"]["name"], "env_id": config["env"]["id"], "seed": seed}
        (path / "result.json").write_text(json.dumps(known | {"total_timesteps": 100, "offline_updates": 0} | result))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_run(tmp_path / "ppo" / "a", seed=0, result={"status": "finished", "eval_mean_return": 450.0})
    write_run(tmp_path / "ppo" / "b", seed=1, result={"status": "paused", "eval_mean_return": 90.0})
    sac = {"algorithm": {"name": "sac", "gamma": 0.9}}
    rows = ({"timesteps": 40, "eval/mean_reward": 7.0}, {"timesteps": 50, "time/total_timesteps": 50, "time/fps": 9.0})
    write_run(tmp_path / "sac", seed=2, rows=rows, **sac)  # killed before its first end
    (tmp_path / "ppo" / "a" / "checkpoints" / "step-1").mkdir()
    write_run(tmp_path / "ppo" / "a" / "inside")  # a run's own folders are no runs
    (tmp_path / "notes").mkdir()
    return tmp_path


def names(found: list[RunRecord]) -> list[str]:
    return [record.name for record in found]


def test_runs_are_found_filtered_and_sorted(root: Path) -> None:
    assert names(rl_training.runs(root)) == ["ppo/a", "ppo/b", "sac"]
    assert names(runs(root, where="algorithm=ppo and score>400")) == ["ppo/a"]
    assert names(runs(root, where="algorithm.gamma=0.9 or training.seed=1")) == ["ppo/b", "sac"]
    assert names(runs(root, where="status=interrupted or eval_mean_return<100")) == ["ppo/b", "sac"]
    assert names(runs(root, sort="-score")) == ["ppo/a", "ppo/b", "sac"]
    assert names(runs(root, sort="speed")) == ["sac", "ppo/a", "ppo/b"]  # without a value last
    assert names(runs(root / "ppo" / "b")) == ["b"]
    assert names(runs(root / "notes", where="nothing=1")) == []


def test_a_field_that_no_run_has_is_refused(root: Path) -> None:
    with pytest.raises(
        ValueError, match=r"--where: no run has a field 'algorithm.gama': did you mean 'algorithm.gamma'"
    ):
        runs(root, where="algorithm.gama=0.9")
    with pytest.raises(ValueError, match="--sort: no run has a field 'scores': did you mean 'score'"):
        runs(root, sort="-scores")
    with pytest.raises(ValueError, match="elsewhere is not a folder: give the one that holds your runs"):
        runs(root / "elsewhere")


def test_a_run_without_a_result_is_read_from_its_settings_and_last_metrics(root: Path) -> None:
    summary = RunRecord(root / "sac").summary
    assert {name: summary[name] for name in ("algorithm", "env", "seed", "steps", "score", "status", "speed")} == {
        "algorithm": "sac", "env": "CartPole-v1", "seed": 2, "steps": 50, "score": 7.0, "status": "interrupted", "speed": 9.0,
    }  # fmt: skip


def test_a_run_that_went_on_after_its_result_is_read_from_its_metrics(tmp_path: Path) -> None:
    rows = ({"timesteps": 150, "time/total_timesteps": 150, "eval/mean_reward": 60.0},)
    path = write_run(tmp_path / "run", result={"status": "paused", "eval_mean_return": 5.0}, rows=rows)
    assert RunRecord(path).summary["score"] == 5.0  # the result is the newer file
    later = time.time() + 5
    os.utime(path / "metrics.jsonl", (later, later))
    assert (RunRecord(path).summary["score"], RunRecord(path).summary["steps"]) == (60.0, 150)
    copied = Path(shutil.copytree(tmp_path / "run", tmp_path / "copy"))
    (copied / "metrics.jsonl").write_text(json.dumps(rows[0] | {"timesteps": 100}) + "\n")
    assert RunRecord(copied).summary["score"] == 5.0  # newer, as in a copy, and no further


def test_logs_and_checkpoints_are_read_back(tmp_path: Path) -> None:
    rows = ({"timesteps": 1, "train/loss": 0.5}, {"timesteps": 2, "eval/mean_reward": 3.0, "eval/returns": [3.0]})
    path = write_run(tmp_path / "run", rows=rows)
    for name in ("step-2", "best-1", "step-1", ".step-3.tmp"):
        (path / "checkpoints" / name).mkdir()
    (path / "metrics.jsonl").write_text((path / "metrics.jsonl").read_text() + '{"timesteps": 3, "eval/mean_rew')
    record = RunRecord(path)
    assert (record.metrics(), record.evaluations(), record.episodes()) == ([*rows], [rows[1]], [])
    assert [one.name for one in record.checkpoints()] == ["best-1", "step-1", "step-2"]
    assert record.latest["train/loss"] == 0.5


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_a_damaged_file_hides_no_other_run(root: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (root / "ppo" / "a" / "result.json").write_text(text)
    with caplog.at_level(logging.WARNING, logger="rl_training"):
        found = runs(root, sort="run")
    assert names(found) == ["ppo/a", "ppo/b", "sac"]
    assert found[0].summary["algorithm"] == "ppo"  # from its settings
    assert ("ppo/a/result.json cannot be read and counts as empty" in caplog.text) is (text != "[1]")


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_a_run_in_progress_says_so(root: Path) -> None:
    with RunDirectory(root / "ppo" / "b").locked():
        assert [record.status for record in runs(root)] == ["finished", "running", "interrupted"]
    assert RunRecord(root / "ppo" / "b").status == "paused"
    (root / "sac" / ".lock").write_text("1")  # another's process has that number by now
    assert RunRecord(root / "sac").status == "interrupted"


def test_settings_that_differ_are_compared(root: Path) -> None:
    assert differing_settings(runs(root, where="algorithm=ppo")) == {"training.seed": [0, 1]}
    assert differing_settings(runs(root, where="seed!=1")) == {
        "algorithm.gamma": [0.99, 0.9], "algorithm.name": ["ppo", "sac"], "training.seed": [0, 2],
    }  # fmt: skip


def test_runs_are_listed_without_torch(root: Path) -> None:
    code = (
        f"import sys, rl_training; print(len(rl_training.runs({str(root)!r}, where='score>0')), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "False"]


def test_logs_that_cannot_be_read_hide_no_other_run(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = root / "ppo" / "a" / "metrics.jsonl"
    file.unlink(missing_ok=True)
    file.mkdir()  # as a file of another user's: root may read everything
    found = runs(root, sort="run")
    assert names(found) == ["ppo/a", "ppo/b", "sac"]
    assert (found[0].latest, found[0].metrics()) == ({}, [])
    assert "ppo/a/metrics.jsonl cannot be read and counts as empty" in caplog.text
    file.rmdir()
    file.write_text("[" * 100_000 + '\n{"timesteps": 1}\n')
    assert RunRecord(root / "ppo" / "a").metrics() == [{"timesteps": 1}]
