"""Evaluations in an environment of their own: recorded, checked before the run, and the spaces must match."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml

import rl_training
from rl_training import PPO, Callback
from rl_training.cli.main import main
from rl_training.config import ConfigError, RunConfig
from rl_training.envs import EnvConfig, NativeEnv
from rl_training.runtime import EvalResult, Trainer
from tests.envs.counting import CountingDynamics, CountingEnv

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [8], "total_timesteps": 64}
PLAIN = {"training": {"compile": False, "threads": 1, "total_timesteps": 64}}


class Scaled(gym.RewardWrapper):
    """Counts with a reward that training clips; an episode ends after three or five steps."""

    def __init__(self, clip: bool = True, actions: int = 2, size: int = 2) -> None:
        super().__init__(CountingEnv())
        self.clip = clip
        self.action_space = gym.spaces.Discrete(actions)
        if size != 2:
            self.observation_space = gym.spaces.Box(-1, 1, (size,), np.float32)

    def reward(self, reward: Any) -> float:
        return min(float(reward), 1.0) if self.clip else float(reward)


CLIPPED, WHOLE = {3.0, 5.0}, {6.0, 15.0}  # returns of episodes


class Notes(Callback):
    def __init__(self) -> None:
        self.returns: set[float] = set()

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        self.returns |= set(result.returns)


def config_of(**changes: Any) -> RunConfig:
    values = {"algorithm": {"name": "ppo"}, "env": {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}}}
    return RunConfig.from_mapping(values | {"evaluation": {"env": changes}})


@pytest.mark.parametrize(
    "given", [{"kwargs": {"clip": False}}, partial(Scaled, clip=False), {"id": partial(Scaled, clip=False)}]
)
def test_evaluations_differ_from_training_as_told(given: object) -> None:
    notes = Notes()
    agent = PPO(Scaled, n_envs=2, evaluation={"env": given, "interval": 32, "episodes": 10}, **SMALL)
    agent.learn(callbacks=notes, progress=False)
    assert agent.trainer is not None
    assert {episode.ret for episode in agent.trainer.recent} == CLIPPED
    assert notes.returns == WHOLE
    assert set(agent.evaluate(10).returns) == WHOLE


def test_the_changes_are_recorded_resumed_and_set_by_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, path = tmp_path / "run", tmp_path / "my.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "algorithm": {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 1},
                "env": {
                    "id": "tests.api.test_evaluation_source_settings:Scaled",
                    "kwargs": {"clip": True, "actions": 2},
                },
                **PLAIN,
            }
        )
    )
    command = ["train", str(path), "--set", "evaluation.env.kwargs.clip=false", "--run-dir", str(run), "--quiet"]
    assert main([*command, "--stop-at", "32"]) == 0
    assert yaml.safe_load((run / "config.yaml").read_text())["evaluation"]["env"] == {"kwargs": {"clip": False}}
    assert main(["resume", str(run), "--quiet"]) == 0
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert set(last["eval/returns"]) == WHOLE
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "10", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["returns"]) == WHOLE


def test_arguments_are_changed_one_by_one_and_another_id_begins_without() -> None:
    same = config_of(kwargs={"render_mode": None}).evaluated_env
    assert same.kwargs == {"sutton_barto_reward": True, "render_mode": None}
    other = config_of(id="Acrobot-v1", max_episode_steps=7, frame_stack=2).evaluated_env
    assert (other.id, other.kwargs, other.max_episode_steps, other.frame_stack) == ("Acrobot-v1", {}, 7, 2)
    assert config_of().evaluated_env == config_of().env


def test_training_in_tensor_code_may_be_evaluated_in_gymnasium_and_the_other_way_round() -> None:
    native = PPO("CartPole-v1", backend="native", n_envs=2, evaluation={"env": {"backend": "gymnasium"}}, **SMALL)
    host = PPO("CartPole-v1", n_envs=2, vectorization="async", evaluation={"env": {"backend": "native"}}, **SMALL)
    try:
        assert host.config.evaluated_env.vectorization == "sync"
        assert all(agent.evaluate(2).mean > 0 for agent in (native, host))
    finally:
        host.close()


def test_an_agent_trained_on_an_object_is_evaluated_in_an_environment_that_has_a_name(tmp_path: Path) -> None:
    def vector() -> NativeEnv:
        return NativeEnv(CountingDynamics(), 2)

    with pytest.raises(ConfigError, match=r"evaluation=\{'env': \.\.\.\}"):
        PPO(vector(), **SMALL).evaluate(2)
    notes, agent = Notes(), PPO(vector(), evaluation={"env": Scaled, "interval": 32}, **SMALL)
    agent.learn(callbacks=notes, progress=False)
    assert notes.returns == CLIPPED
    agent.save(tmp_path / "agent")
    assert set(rl_training.load(tmp_path / "agent").evaluate(10).returns) == CLIPPED
    with pytest.raises(ConfigError, match=r"evaluation.env has no id, and that of training, env.id='object:NativeEnv'"):
        PPO(vector(), evaluation={"env": {"max_episode_steps": 3}}, **SMALL)


def test_one_evaluation_may_be_elsewhere() -> None:
    agent = PPO(Scaled, **SMALL)
    name = "tests.api.test_evaluation_source_settings:Scaled"
    whole = partial(Scaled, clip=False)
    for env in ({"kwargs": {"clip": False}}, whole, EnvConfig(id=name, kwargs={"clip": False})):
        assert set(agent.evaluate(10, env=env).returns) == WHOLE
    assert set(agent.evaluate(10, env=name).returns) == CLIPPED
    vector = gym.vector.SyncVectorEnv([whole, whole])
    assert set(agent.evaluate(10, env=vector).returns) == WHOLE
    assert set(agent.evaluate(10, env=vector).returns) == WHOLE  # it was not closed
    assert set(agent.evaluate(10).returns) == CLIPPED


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kwarg": {}}, "evaluation.env.kwarg is not a setting: did you mean 'kwargs'?"),
        ({"n_envs": 3}, "evaluation.env.n_envs=3: set evaluation.n_envs instead"),
        ({"max_episode_steps": 0}, "evaluation.env.max_episode_steps=0 must be at least 1"),
        ({"id": "Nope-v0", "backend": "native"}, "evaluation.env.id='Nope-v0' has no native version"),
        ({"kwargs": 3}, "evaluation.env.kwargs=3 must be a mapping"),
        ({"backend": "native", "vectorization": "async"}, "evaluation.env.vectorization='async' is for gymnasium"),
    ],
)
def test_wrong_changes_are_one_sentence(changes: dict, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_of(**changes)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"actions": 3}, "the actions of '.*Scaled' are Discrete\\(3\\), those of training Discrete\\(2\\)"),
        ({"size": 3}, r"the observations of '.*Scaled' are Box\(3,\) float32, those of training Box\(2,\) float32"),
    ],
)
def test_other_spaces_are_refused_before_anything_is_written(changes: dict, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        PPO(Scaled, evaluation={"env": {"kwargs": changes}}, run_dir=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=sentence):
        PPO(Scaled, **SMALL).evaluate(2, env={"kwargs": changes})


def test_other_bounds_of_actions_are_refused() -> None:
    def narrow() -> gym.Env:
        return gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))

    with pytest.raises(ConfigError, match=r"have other bounds \(low \(-1.0,\)\) than those of training \(\(-2.0,\)\)"):
        PPO("Pendulum-v1", evaluation={"env": narrow}, **SMALL)


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="env=3 is not an environment"):
        PPO(Scaled, **SMALL).evaluate(2, env=3)
    with pytest.raises(ConfigError, match=r"no copies can be made: .* agent.evaluate\(env=...\)"):
        PPO(Scaled, evaluation={"env": gym.vector.SyncVectorEnv([Scaled])}, **SMALL)
    with pytest.raises(ConfigError, match=r"use evaluation=\{'env': ..., 'interval': ...\}"):
        PPO(Scaled, eval_env=Scaled)


def test_a_checkpoint_evaluates_in_no_code_that_was_not_asked_for(tmp_path: Path) -> None:
    PPO("CartPole-v1", **SMALL).save(tmp_path / "agent")
    edited = rl_training.load(tmp_path / "agent")
    edited.config = edited.config.replace("evaluation", env={"id": "os:system", "kwargs": {"command": "true"}})
    edited.save(tmp_path / "edited")
    loaded = rl_training.load(tmp_path / "edited")
    with pytest.raises(ConfigError, match=r"evaluation.env.id='os:system' in .* names code that is not known"):
        loaded.evaluate(1)
    with pytest.raises(ConfigError, match=r"evaluation.env.id='os:system' in"):
        loaded.evaluate(1, env={"max_episode_steps": 5})  # the name is still the checkpoint's
    assert loaded.evaluate(1, env="CartPole-v1").mean > 0


def test_a_run_from_data_alone_may_name_where_it_is_evaluated() -> None:
    data = rl_training.make_data(EnvConfig(id="CartPole-v1"), ("random",), 64)
    agent = rl_training.BC(dataset=data, net_arch=[8], evaluation={"env": "CartPole-v1"})
    agent.learn(total_updates=2, progress=False)
    assert agent.evaluate(2).mean > 0
