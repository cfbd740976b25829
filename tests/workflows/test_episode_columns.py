"""What `info` says of episodes reaches callbacks, logs, evaluations, results and resumed runs."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rl_training import PPO, Callback
from rl_training.api.training import build_run
from rl_training.cli.main import main
from rl_training.envs.episode_columns import SUCCESS
from rl_training.runtime import Episode, Trainer
from rl_training.runtime.executors import WholeIteration
from tests.envs.test_episode_columns import TellingDynamics
from tests.gpu import needs_gpu
from tests.runtime.test_executors_whole_iteration import take_whole

SMALL = {"n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8], "total_timesteps": 256}
QUIET = {"training": {"log_interval": 64, "compile": False, "threads": 1}}


class Info(gym.Wrapper):
    """Says success where the pole fell to the right, and how far the cart is."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info | {"is_success": bool(obs[2] > 0), "my": float(obs[0])}


def make() -> gym.Env:
    return Info(gym.make("CartPole-v1"))


class Notes(Callback):
    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.logs: list[dict[str, float]] = []

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        self.episodes += episodes

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        self.logs.append(metrics)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def mean(values: list) -> float:
    return sum(values) / len(values)


def test_columns_reach_callbacks_logs_and_results(tmp_path: Path) -> None:
    notes, agent = Notes(), PPO(make, info_keys=["my"], run_dir=tmp_path / "run", **SMALL | QUIET)
    result = agent.learn(callbacks=notes, progress=False)
    assert notes.episodes
    assert all(set(e.columns) == {SUCCESS, "my"} for e in notes.episodes)
    rows = read(tmp_path / "run" / "episodes.jsonl")
    assert [{k: row[k] for k in (SUCCESS, "my")} for row in rows] == [e.columns for e in notes.episodes]
    assert notes.logs[-1]["rollout/success_rate"] == mean([e.columns[SUCCESS] for e in notes.episodes])
    assert notes.logs[-1]["rollout/ep_info/my"] == pytest.approx(mean([e.columns["my"] for e in notes.episodes]))
    last = read(tmp_path / "run" / "metrics.jsonl")[-1]
    assert last["eval/success_rate"] == result.eval_success_rate
    assert last["eval/ep_info/my"] == result.eval_info["my"]
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (stored["eval_success_rate"], stored["eval_info"]) == (result.eval_success_rate, result.eval_info)


def test_evaluations_say_each_episode_the_rate_and_its_interval() -> None:
    result = PPO(make, info_keys=["my"], **SMALL).evaluate(7)
    assert [len(column) for column in result.columns.values()] == [7, 7]
    assert result.success_rate == mean(list(result.columns[SUCCESS]))
    low, high = result.success_interval or (1, 0)
    assert 0 <= low <= result.success_rate <= high <= 1
    plain = PPO("CartPole-v1", **SMALL).evaluate(2)
    assert (plain.columns, plain.success_rate, plain.success_interval) == ({}, None, None)


def test_the_command_shows_columns_and_what_was_not_said_is_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PPO(make, info_keys=["my"], **SMALL).save(tmp_path / "with")
    PPO("CartPole-v1", **SMALL).save(tmp_path / "without")
    main(["eval", str(tmp_path / "with"), "--episodes", "4"])
    shown = capsys.readouterr().out
    assert "success rate " in shown
    assert "of 4 episodes (95 % interval " in shown
    assert "\nmy " in shown
    main(["eval", str(tmp_path / "with"), "--episodes", "4", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert record["success_rate"] == mean(record["columns"][SUCCESS])
    assert record["column_means"]["my"] == pytest.approx(mean(record["columns"]["my"]))
    assert record["success_interval_95"][0] <= record["success_rate"] <= record["success_interval_95"][1]
    main(["eval", str(tmp_path / "without"), "--episodes", "2", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert (record["success_rate"], record["success_interval_95"], record["columns"]) == (None, None, {})


def test_a_resumed_run_logs_the_same_columns(tmp_path: Path) -> None:
    whole, first = (PPO(make, info_keys=["my"], **SMALL | QUIET) for _ in range(2))
    expected, notes = Notes(), Notes()
    whole.learn(callbacks=expected, progress=False)
    first.learn(stop_at=150, progress=False)
    first.save(tmp_path / "paused")
    PPO.load(tmp_path / "paused").learn(callbacks=notes, progress=False)
    for name in ("rollout/success_rate", "rollout/ep_info/my"):
        assert notes.logs[-1][name] == expected.logs[-1][name]


def test_checkpoints_whose_episodes_have_four_fields_still_load(tmp_path: Path) -> None:
    agent = PPO(make, **SMALL | QUIET)
    agent.learn(stop_at=150, progress=False)
    state = agent.snapshot().state
    assert state["progress"]["recent"]
    state["progress"]["recent"] = [episode[:4] for episode in state["progress"]["recent"]]
    assert agent.trainer is not None
    agent.trainer.load_state_dict(state)
    assert all(episode.columns == {} for episode in agent.trainer.recent)
    agent.learn(progress=False)


def test_a_vector_environment_that_was_handed_over_gives_columns_too() -> None:
    notes = Notes()
    vector = gym.vector.SyncVectorEnv([make, make])
    settings = {k: v for k, v in SMALL.items() if k != "n_envs"} | QUIET
    PPO(vector, info_keys=["my"], **settings).learn(callbacks=notes, progress=False)
    assert notes.episodes
    assert all(set(e.columns) == {SUCCESS, "my"} for e in notes.episodes)


@pytest.mark.parametrize("path", ["steps", "whole", pytest.param("recorded", marks=needs_gpu)])
def test_native_columns_are_logged_step_by_step_and_by_whole_iterations(path: str) -> None:
    machine = {"device": "cuda", "compile": True} if path == "recorded" else {}
    training = {"training": QUIET["training"] | machine}
    agent, notes = PPO(TellingDynamics, backend="native", info_keys=["distance"], **SMALL | training), Notes()
    trainer = build_run(agent).trainer
    if path == "whole":  # as on a GPU, without being recorded
        take_whole(trainer)
    agent.learn(callbacks=notes, progress=False)
    assert isinstance(trainer.executor(trainer.plan.phases[0]), WholeIteration) == (path != "steps")
    assert agent.evaluate(4).columns["distance"]
    first = notes.logs[0]
    # Episodes of 3 steps end in success at distance 30, those of 5 without at 50.
    rate = first["rollout/success_rate"]
    assert 0 < rate < 1
    assert first["rollout/ep_len_mean"] == pytest.approx(3 * rate + 5 * (1 - rate))
    assert first["rollout/ep_info/distance"] == pytest.approx(30 * rate + 50 * (1 - rate))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("distance", r"env.info_keys='distance' must be a list, for example \[distance\]"),
        ([3], r"env.info_keys\[0\]=3 must be text"),
        (["length"], "env.info_keys: 'length' is the name of an episode's own column"),
        (["a", "a"], "env.info_keys names 'a' twice"),
    ],
)
def test_wrong_keys_are_refused(keys: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PPO(make, info_keys=keys)


def test_the_name_that_others_give_it_is_known() -> None:
    with pytest.raises(ValueError, match="here it is called info_keys"):
        PPO(make, info_keywords=("my",))
