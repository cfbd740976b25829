"""Events that TensorBoard's own reader opens."""

from __future__ import annotations

from tests import needs

needs.import_package("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.plugins.hparams.api_pb2 import Status  # noqa: E402
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData  # noqa: E402

from rl_training.experiment.trackers.in_background import InBackground  # noqa: E402
from rl_training.experiment.trackers.tensorboard import TensorBoard  # noqa: E402
from tests.experiment.trackers.fakes import run_through, tracked_run  # noqa: E402


def opened(folder) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def hparams(events: EventAccumulator, part: str) -> HParamsPluginData:
    return HParamsPluginData.FromString(events.PluginTagToContent("hparams")[f"_hparams_/{part}"])


def test_names_steps_and_values(tmp_path):
    run_through(InBackground(TensorBoard(), tracked_run(tmp_path)), [0.5, float("nan")])
    first, second = opened(tmp_path).Scalars("train/loss")
    assert (first.step, first.value, second.step) == (8, 0.5, 16)
    assert second.value != second.value


def test_settings_are_hyperparameters_and_the_end_is_a_success(tmp_path):
    settings = {"algorithm.gamma": 0.9, "algorithm.name": "ppo", "training.compile": False, "env.n_envs": 8}
    run_through(InBackground(TensorBoard(), tracked_run(tmp_path, **settings)), [0.5])
    events = opened(tmp_path)
    values = hparams(events, "session_start_info").session_start_info.hparams
    assert {name: values[name].number_value for name in ("algorithm.gamma", "env.n_envs")} == {
        "algorithm.gamma": 0.9, "env.n_envs": 8,
    }  # fmt: skip
    assert values["algorithm.name"].string_value == "ppo"
    assert values["training.compile"].bool_value is False
    metrics = hparams(events, "experiment").experiment.metric_infos
    assert {metric.name.tag for metric in metrics} == {"eval/mean_reward", "rollout/ep_rew_mean"}
    assert hparams(events, "session_end_info").session_end_info.status == Status.Value("STATUS_SUCCESS")


def test_a_crash_leaves_the_settings_and_no_success(tmp_path):
    run_through(InBackground(TensorBoard(), tracked_run(tmp_path, gamma=0.9)), [0.5], crash=True)
    assert set(opened(tmp_path).PluginTagToContent("hparams")) == {
        "_hparams_/experiment",
        "_hparams_/session_start_info",
    }


def test_a_resumed_run_replaces_what_came_after_its_checkpoint(tmp_path):
    run_through(InBackground(TensorBoard(), tracked_run(tmp_path)), [1.0, 2.0, 3.0], crash=True)
    run_through(InBackground(TensorBoard(), tracked_run(tmp_path, 8)), [])
    assert [event.step for event in opened(tmp_path).Scalars("train/loss")] == [8]
