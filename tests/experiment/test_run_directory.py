"""One run, one directory, one process at a time."""

from __future__ import annotations

import json
import os

import pytest
import torch
import yaml

from rl_base import file_lock
from rl_training import ConfigError, RunConfig
from rl_training.experiment import Checkpoint, CheckpointError, RunDirectory, find_checkpoint
from tests import needs

CONFIG = RunConfig.from_mapping({"algorithm": {"name": "a2c"}, "env": {"id": "CartPole-v1"}})


def make(timesteps: int) -> Checkpoint:
    return Checkpoint(CONFIG.to_mapping(), {}, {"x": torch.tensor(timesteps)}, timesteps)


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", CONFIG)


def names(run: RunDirectory) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_create_writes_config_and_metadata(run):
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == CONFIG.to_mapping()
    assert RunDirectory.open(run.path).config() == CONFIG
    metadata = json.loads((run.path / "metadata.json").read_text())
    assert metadata["versions"]["torch"] == torch.__version__.split("+")[0] or metadata["versions"]["torch"]
    assert metadata["python"].count(".") == 2
    assert RunDirectory.open(run.path).path == run.path


def test_create_never_overwrites(run, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    with pytest.raises(ConfigError, match=r"run directory .* exists: choose another, or continue it with"):
        RunDirectory.create(run.path, CONFIG)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
    (tmp_path / "empty").mkdir()
    RunDirectory.create(tmp_path / "empty", CONFIG)  # an empty folder may be used
    assert RunDirectory.open(tmp_path / "empty").config() == CONFIG


def test_open_needs_a_config(tmp_path):
    with pytest.raises(ConfigError, match="is not a run directory: it has no config"):
        RunDirectory.open(tmp_path)


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_the_lock_names_its_holder_and_ends_with_it(run):
    with run.locked(), pytest.raises(ConfigError, match=rf"is in use by process {os.getpid()}: wait"), run.locked():
        pass
    with run.locked():
        pass


def test_leftovers_of_a_killed_process_are_removed(run):
    for name in (".step-000000000001.tmp-99", ".step-000000000001.old-99"):
        (run.checkpoints / name).mkdir()
        (run.checkpoints / name / "state.json").write_text("{")
    (run.path / ".metrics.jsonl.tmp-99").write_text("{")
    (run.path / ".learning_curve.png.tmp").write_text("")
    run.save_step(make(1), keep=3)
    with run.locked():
        assert names(run) == ["step-000000000001"]
        assert sorted(path.name for path in run.path.glob(".*")) == [".lock"]


def test_steps_are_rotated_and_the_best_is_kept_besides(run):
    for timesteps in (100, 200, 1000, 3000):
        run.save_step(make(timesteps), keep=2)
    run.save_best(make(200))
    run.save_best(make(1000))
    assert names(run) == ["best-000000001000", "step-000000001000", "step-000000003000"]
    assert [path.name for path in run.steps()] == ["step-000000001000", "step-000000003000"]
    assert find_checkpoint(run.path).name == "best-000000001000"


def test_a_process_killed_while_it_deletes_leaves_whole_checkpoints(run, monkeypatch):
    def die(path, **options):
        if path.exists():  # the checkpoint that goes, not a place for the one that comes
            next(path.iterdir()).unlink()
            raise KeyboardInterrupt

    run.save_step(make(5), keep=1)
    with monkeypatch.context() as patch:
        patch.setattr("rl_training.experiment.run_directory.shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            run.save_step(make(10), keep=1)
    assert [path.name for path in run.steps()] == ["step-000000000010"]
    with run.locked():
        assert names(run) == ["step-000000000010"]


def test_find_checkpoint_takes_the_last_without_a_best(run):
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        find_checkpoint(run.path)
    run.save_step(make(5), keep=1)
    run.save_step(make(10), keep=3)
    assert find_checkpoint(run.path).name == "step-000000000010"
    assert find_checkpoint(run.steps()[0]).name == "step-000000000005"


def test_logs_are_trimmed_to_the_checkpoint(run):
    rows = [{"timesteps": n, "return": n / 2} for n in (10, 20, 30)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run.path / "episodes.jsonl").write_text(text + '{"timesteps": 5, "ret')
    run.trim_logs(20)
    assert (run.path / "episodes.jsonl").read_text() == "".join(json.dumps(row) + "\n" for row in rows[:2])


def test_an_evaluation_that_will_be_repeated_is_trimmed(run):
    rows = [
        {"timesteps": 10, "eval/mean_reward": 1.0},
        {"timesteps": 20, "train/loss": 1.0},
        {"timesteps": 20, "eval/mean_reward": 2.0},
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run.trim_logs(20)
    assert (run.path / "metrics.jsonl").read_text().count("\n") == 3
    run.trim_logs(20, redo_evaluation=True)
    assert [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()] == rows[:2]


def test_default_path_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = RunDirectory.default_path(CONFIG)
    first.mkdir(parents=True)
    second = RunDirectory.default_path(CONFIG)
    assert first != second
    assert not second.exists()
