"""The thread between a run and its trackers: nothing that a tracker does stops or delays the run."""

from __future__ import annotations

import json
import logging

import pytest

from rl_training import PPO
from rl_training.experiment.trackers import begin, in_background
from rl_training.experiment.trackers.in_background import InBackground
from rl_training.runtime import EvalResult
from rl_training.runtime.callbacks import Callback
from tests.experiment.trackers.fakes import Remembering, run_through, tracked_run, trainer_at

SMALL = {"n_envs": 2, "n_steps": 16, "batch_size": 32, "n_epochs": 1, "net_arch": [8], "compile": False}


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_every_metric_arrives_in_order_before_the_run_ends(tmp_path, caplog):
    tracker = Remembering()
    callback = InBackground(tracker, tracked_run(tmp_path, 3))
    callback.wait_for_start()
    callback.on_log(trainer_at(8), {"train/loss": 0.5})
    callback.on_evaluation(trainer_at(8), EvalResult((1.0, 3.0), (10, 20)))
    callback.on_log(trainer_at(16), {"train/loss": 0.25})
    callback.on_end(trainer_at(64))
    callback.close()
    told = [(record.timesteps, dict(record.metrics)) for record in tracker.records]
    assert told[0] == (8, {"train/loss": 0.5})
    assert told[1] == (8, {"eval/mean_reward": 2.0, "eval/std_reward": 1.0, "eval/mean_ep_length": 15.0})
    assert told[2] == (16, {"train/loss": 0.25})
    assert tracker.status == "finished"
    assert json.loads((tmp_path / "trackers/remembering.json").read_text()) == {"id": f"{tmp_path.name}-3"}
    assert not warnings(caplog)


@pytest.mark.parametrize(
    ("timesteps", "reason", "status"),
    [(64, None, "finished"), (16, "solved", "finished"), (16, None, "paused"), (16, "SIGTERM", "paused")],
)
def test_the_tracker_hears_how_the_run_ended(tmp_path, timesteps, reason, status):
    tracker = Remembering()
    callback = InBackground(tracker, tracked_run(tmp_path))
    callback.on_end(trainer_at(timesteps, reason))
    callback.close()
    assert tracker.status == status


def test_a_crash_of_the_run_flushes_and_fails(tmp_path):
    tracker = Remembering()
    run_through(InBackground(tracker, tracked_run(tmp_path)), [1.0, 2.0], crash=True)
    assert [record.metrics["train/loss"] for record in tracker.records] == [1.0, 2.0]
    assert tracker.status == "failed"


@pytest.mark.parametrize("method", ["start", "log", "finish"])
def test_an_error_of_a_tracker_is_one_warning_with_advice(tmp_path, caplog, method):
    tracker = Remembering(fails=(method,))
    run_through(InBackground(tracker, tracked_run(tmp_path)), [1.0, 2.0])
    first, *others = warnings(caplog)
    assert f": no {method} today: call it again; training goes on, and {tmp_path / 'metrics.jsonl'}" in first
    assert others == (
        [f"remembering lacks 2 records of this run; and {tmp_path / 'metrics.jsonl'} has all metrics"]
        if method == "log"
        else []
    )
    assert tracker.status == (None if method == "start" else "finished")


def test_a_tracker_that_hangs_at_the_end_is_left_behind(tmp_path, caplog):
    tracker = Remembering(held=("finish",))
    callback = InBackground(tracker, tracked_run(tmp_path), end_s=0.05)
    run_through(callback, [1.0])
    assert "remembering has not written everything within 0.05 s" in warnings(caplog)[0]
    tracker.free.set()
    callback.thread.join(60)


def test_training_begins_without_a_tracker_that_hangs_at_the_start(tmp_path, caplog):
    tracker = Remembering(held=("start",))
    callback = InBackground(tracker, tracked_run(tmp_path), start_s=0.05)
    callback.wait_for_start()
    assert "remembering has not started within 0.05 s: training begins" in warnings(caplog)[0]
    callback.on_log(trainer_at(8), {"train/loss": 1.0})
    tracker.free.set()
    callback.on_end(trainer_at(64))
    callback.close()
    assert [record.timesteps for record in tracker.records] == [8]  # they waited for it


def test_what_a_slow_tracker_cannot_take_is_dropped_and_counted(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(in_background, "MOST_WAITING", 3)
    tracker = Remembering(held=("log",))
    callback = InBackground(tracker, tracked_run(tmp_path))
    callback.on_log(trainer_at(8), {"train/loss": 0.0})
    assert tracker.reached.wait(60)
    for number in range(1, 6):
        callback.on_log(trainer_at(8 * number), {"train/loss": float(number)})
    tracker.free.set()
    callback.on_end(trainer_at(64))
    callback.close()
    assert [record.metrics["train/loss"] for record in tracker.records] == [0, 1, 2, 3]
    slow, lacks = warnings(caplog)
    assert "is too slow for this run: 3 records wait for it" in slow
    assert lacks.startswith("remembering lacks 2 records")


def test_a_run_with_trackers_learns_the_same_and_continues_their_runs(tmp_path, monkeypatch, caplog):
    made: list[Remembering] = []

    def make() -> Remembering:
        made.append(Remembering(fails=("log",) if len(made) == 2 else ()))
        return made[-1]

    make.package = "json"
    monkeypatch.setattr(begin, "TRACKERS", {"tensorboard": Remembering, "wandb": make})
    Remembering.package, before = "absent_package", Remembering.package
    try:
        plain = PPO("CartPole-v1", backend="native", total_timesteps=128, log_interval=32, **SMALL)
        tracked = PPO(
            "CartPole-v1", backend="native", total_timesteps=128, log_interval=32, tracking={"loggers": ["wandb"]},
            run_dir=tmp_path / "seed1", **SMALL,
        )  # fmt: skip
        plain.learn(progress=False)
        tracked.learn(stop_at=64, progress=False)
        assert made[0].status == "paused"
        again = PPO.resume(tmp_path / "seed1")
        again.learn(progress=False)
    finally:
        Remembering.package = before
    assert made[1].status == "finished"
    assert made[1].before == {"id": f"{tmp_path.name}-seed1-0"}
    steps = [record.timesteps for tracker in made for record in tracker.records if "train/loss" in record.metrics]
    assert steps == [32, 64, 96, 128]
    mine, theirs = plain.algorithm.policy.state_dict(), again.algorithm.policy.state_dict()
    assert all((mine[name] == theirs[name]).all() for name in mine)


def test_a_missing_package_is_a_warning_before_the_first_step(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Remembering, "package", "absent_package")
    monkeypatch.setattr(begin, "TRACKERS", {"tensorboard": Remembering, "mlflow": Remembering})
    said: list[list[str]] = []

    class Listen(Callback):
        def on_start(self, trainer) -> None:
            said.append(warnings(caplog))

    agent = PPO("CartPole-v1", backend="native", tracking={"loggers": ["mlflow"]}, run_dir=tmp_path / "run", **SMALL)
    assert agent.learn(32, callbacks=Listen(), progress=False).status == "finished"
    assert said == [warnings(caplog)]
    assert "pip install 'rl-training[mlflow]'" in said[0][0]
    assert len(said[0]) == 1
