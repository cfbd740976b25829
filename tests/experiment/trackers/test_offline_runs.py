"""Runs that trackers write on this machine, as their own readers open them; each is paused once and continued."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from rl_training.experiment.trackers.in_background import InBackground
from rl_training.experiment.trackers.mlflow import MLflow
from rl_training.experiment.trackers.tracker import Tracker
from rl_training.experiment.trackers.trackio import Trackio
from rl_training.experiment.trackers.wandb import WeightsAndBiases
from tests import needs
from tests.experiment.trackers.fakes import tracked_run, trainer_at
from tests.experiment.trackers.wandb_file import records_of

SETTINGS = {"algorithm.gamma": 0.9, "algorithm.name": "ppo", "training.compile": False}


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))


def track(kind: type[Tracker], folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Tracks a run that is paused at step 16 and continued to its end; random numbers stay as they are."""
    before = random.getstate(), np.random.get_state()[1].tolist()
    for began, steps, ended in ((0, (8, 16), 16), (16, (24, 64), 64)):
        callback = InBackground(kind(), tracked_run(folder, began, **SETTINGS), start_s=120)
        callback.wait_for_start()
        for step in steps:
            metrics = {"train/loss": 1 / step, "rollout/ep_info/a(b)": float("nan") if step == 16 else 2.0}
            callback.on_log(trainer_at(step), metrics)
        callback.on_end(trainer_at(ended))
        callback.close()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert not [record for record in caplog.records if record.name.startswith("rl_training")]


def test_mlflow(tmp_path, caplog):
    needs.import_extra("mlflow")
    from mlflow.tracking import MlflowClient

    track(MLflow, tmp_path, caplog)
    client = MlflowClient()
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == (tmp_path.name, "FINISHED")
    assert run.data.params == {name: str(value) for name, value in SETTINGS.items()}
    history = sorted((each.step, each.value) for each in client.get_metric_history(run.info.run_id, "train/loss"))
    assert history == [(step, 1 / step) for step in (8, 16, 24, 64)]
    others = client.get_metric_history(run.info.run_id, "rollout/ep_info/a_b_")
    assert [math.isnan(each.value) for each in sorted(others, key=lambda each: each.step)] == [
        False,
        True,
        False,
        False,
    ]


def test_trackio(tmp_path, caplog):
    trackio = needs.import_extra("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    track(Trackio, tmp_path, caplog)
    (run,) = trackio.Api().runs("tests")
    assert run.name.startswith(f"{tmp_path.name}-")
    assert {name: run.config[name] for name in SETTINGS} == SETTINGS
    logs = [row for row in SQLiteStorage.get_logs("tests", run.name) if "train/loss" in row]
    assert [(row["step"], row["train/loss"]) for row in logs] == [(step, 1 / step) for step in (8, 16, 24, 64)]


def test_weights_and_biases(tmp_path, caplog):
    wandb = needs.import_extra("wandb")
    track(WeightsAndBiases, tmp_path, caplog)
    wandb.teardown()  # its own process may write a file a moment after the run was finished
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    first, second = (records_of(file) for file in files)
    (began,), (continued,) = ([each.run for each in part if each.HasField("run")] for part in (first, second))
    assert began.run_id == continued.run_id
    assert (began.project, began.display_name) == ("tests", tmp_path.name)
    assert {each.key: each.value_json for each in began.config.update if each.key in SETTINGS} == {
        "algorithm.gamma": "0.9", "algorithm.name": '"ppo"', "training.compile": "false",
    }  # fmt: skip
    rows = [
        {"".join(i.nested_key) or i.key: i.value_json for i in each.history.item}
        for each in [*first, *second]
        if each.HasField("history")
    ]
    told = [(int(row["timesteps"]), float(row["train/loss"])) for row in rows]
    assert told == [(step, 1 / step) for step in (8, 16, 24, 64)]
    assert [each.exit.exit_code for each in second if each.HasField("exit")] == [0]
