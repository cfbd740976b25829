"""What people of other libraries write is answered with what to write here, wherever they write it."""

from __future__ import annotations

import copy
import inspect

import gymnasium as gym
import pytest

import rl_training
from rl_training import DQN, PPO, Agent, Callback, ConfigError
from rl_training.config.names_of_others import ATTRIBUTES, KEYWORDS, NAMES

SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}


@pytest.fixture(scope="module")
def agent() -> PPO:
    return PPO("CartPole-v1", **SMALL)


CALLS = {
    "callback": (lambda a: a.learn(64, callback=None), "learn(callback=None)", "use callbacks=[...]"),
    "progress_bar": (lambda a: a.learn(64, progress_bar=True), "progress_bar=True", "use progress=True"),
    "tb_log_name": (lambda a: a.learn(64, tb_log_name="x"), "tb_log_name='x'", "give run_dir="),
    "log_interval": (lambda a: a.learn(64, log_interval=4), "log_interval=4", "when the agent is built"),
    "reset": (lambda a: a.learn(64, reset_num_timesteps=False), "reset_num_timesteps=False", "N further steps"),
    "by position": (lambda a: a.learn(64, []), "learn() takes total_timesteps by position", "give the rest by name"),
    "a typo": (lambda a: a.learn(64, progres=False), "learn(progres=False)", "did you mean 'progress'?"),
    "nothing near": (lambda a: a.learn(64, zzz=1), "learn(zzz=1)", "it takes total_timesteps, "),
    "predict observation": (
        lambda a: a.predict(observation=[0, 0, 0, 0]),
        "predict(observation=[0, 0, 0, 0])",
        "use obs=",
    ),
    "predict mask": (lambda a: a.predict([0, 0, 0, 0], mask=None), "mask=None", "use episode_start="),
    "action_masks": (lambda a: a.predict([0, 0, 0, 0], action_masks=[1, 1]), "action_masks=", "'action_mask'"),
    "predict by position": (
        lambda a: a.predict([0] * 4, None, None, True),
        "predict() takes obs, state, episode_start",
    ),
    "predict nothing": (lambda a: a.predict(), "predict(): missing a required argument: 'obs'"),
    "n_eval_episodes": (lambda a: a.evaluate(n_eval_episodes=3), "n_eval_episodes=3", "use num_episodes="),
    "render": (lambda a: a.evaluate(3, render=True), "render=True", "render_mode='human'"),
    "save exclude": (lambda a: a.save("x", exclude=["env"]), "exclude=['env']", "the whole agent is saved"),
    "policy first": (lambda _: PPO("MlpPolicy", "CartPole-v1"), "PPO('CartPole-v1')", "follows from the spaces"),
    "policy, env=": (lambda _: PPO("MlpPolicy", env="CartPole-v1"), "PPO(): env is given twice", "no policy is named"),
    "policy alone": (lambda _: PPO("MlpPolicy"), "env='MlpPolicy' names a policy", "PPO('CartPole-v1')"),
    "policy=": (lambda _: PPO(policy="MlpPolicy", env="CartPole-v1"), "policy='MlpPolicy'", "follows from the spaces"),
    "policy_kwargs": (lambda _: PPO("CartPole-v1", policy_kwargs={}), "policy_kwargs={}", "net_arch", "activation_fn"),
    "tensorboard_log": (lambda _: PPO("CartPole-v1", tensorboard_log="x"), "tensorboard_log='x'", "give run_dir="),
    "HER": (
        lambda _: DQN("CartPole-v1", replay_buffer_class="HerReplayBuffer"),
        "replay_buffer_class",
        "for HER hindsight={'strategy': 'future', 'k': 4}",
    ),
    "set_env": (lambda a: a.set_env("CartPole-v1"), "PPO has no set_env", "load(path, env=...)"),
    "get_parameters": (lambda a: a.get_parameters(), "PPO has no get_parameters", "agent.algorithm.state_dict()"),
    "policy attribute": (lambda a: a.policy, "PPO has no policy", "agent.algorithm.policy"),
    "logger": (lambda a: a.logger, "PPO has no logger", "on_log"),
    "a setting": (lambda a: a.learning_rate, "agent.config.algorithm.learning_rate"),
    "near a method": (lambda a: a.evalute, "no attribute 'evalute': did you mean 'evaluate'?"),
    "set a setting": (
        lambda a: setattr(a, "learning_rate", 1e-5),
        "learning_rate cannot be set",
        "load(path, learning_rate=",
    ),
    "set ent_coef": (lambda a: setattr(a, "ent_coef", 0.1), "agent.config.algorithm.ent_coef", "settings are fixed"),
    "set logger": (lambda a: setattr(a, "logger", None), "logger cannot be set"),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_foreign_name_is_answered_with_ours(kind: str, agent: PPO) -> None:
    call, *parts = CALLS[kind]
    with pytest.raises(ConfigError) as caught:
        call(agent)
    for part in parts:
        assert part in str(caught.value)


def test_the_answers_are_also_what_python_raises(agent: PPO) -> None:
    with pytest.raises(TypeError):
        agent.learn(64, callback=None)
    assert not hasattr(agent, "policy")
    assert getattr(agent, "logger", 5) == 5
    agent.note = "my own"  # attributes of one's own are free
    assert agent.note == "my own"


def test_the_users_own_type_errors_stay_what_they_are(agent: PPO) -> None:
    class Broken(Callback):
        def on_start(self, trainer) -> None:
            len(5)

    with pytest.raises(TypeError, match="object of type 'int' has no len") as caught:
        agent.learn(8, callbacks=[Broken()], progress=False)
    assert not isinstance(caught.value, ConfigError)


def test_names_of_the_package_that_other_libraries_have() -> None:
    with pytest.raises(AttributeError, match=r"rl_training has no MaskablePPO: .*action_mask: use PPO"):
        _ = rl_training.MaskablePPO
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = rl_training.Nothing
    assert not set(NAMES) & set(rl_training.__all__)


def test_no_advice_hides_a_name_that_is_there(agent: PPO) -> None:
    assert not set(ATTRIBUTES) & {*dir(Agent), *vars(agent)}
    for method, keywords in KEYWORDS.items():
        assert not set(keywords) & set(inspect.signature(getattr(Agent, method)).parameters), method


def test_copies_do_not_ask_for_attributes_before_they_are_there() -> None:
    with pytest.raises(AttributeError):
        _ = PPO.__new__(PPO).config
    config = PPO("CartPole-v1", **SMALL).config
    assert copy.deepcopy(config) == config


class SB3Style(Callback):
    def _on_step(self) -> bool:
        return True


class Misnamed(Callback):
    def on_step(self, trainer) -> None: ...


class OddInterval(Callback):
    interval = 2.5  # pyrefly: ignore


class Silent(Callback):
    pass


CALLBACKS = {
    "a function": (lambda *_: True, "is not a Callback", "derive from rl_training.Callback"),
    "in a list": ([lambda *_: True], "is not a Callback"),
    "a class": (Silent, "callbacks=Silent is a class", "Silent()"),
    "a class in a list": ([Silent], "callbacks=Silent is a class", "Silent()"),
    "nothing": (None, "callbacks=None is not a Callback"),
    "text": ("x", "callbacks='x' is not a Callback"),
    "SB3's": (SB3Style(), "SB3Style._on_step is never called", "on_steps(trainer, episodes)"),
    "misnamed": (Misnamed(), "Misnamed.on_step is never called", "on_steps(trainer, episodes)"),
    "interval": (OddInterval(), "OddInterval.interval=2.5 must be a whole number"),
}


@pytest.mark.parametrize("kind", CALLBACKS)
def test_callbacks_that_would_do_nothing_are_refused_before_anything_is_written(kind: str, tmp_path) -> None:
    callbacks, *parts = CALLBACKS[kind]
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", **SMALL)
    with pytest.raises(ConfigError) as caught:
        agent.learn(64, callbacks=callbacks, progress=False)
    for part in parts:
        assert part in str(caught.value)
    assert not (tmp_path / "run").exists()
    assert agent.num_timesteps == 0


def test_learn_inside_learn_is_refused(agent: PPO) -> None:
    class Again(Callback):
        def on_steps(self, trainer, episodes) -> None:
            agent.learn(8, progress=False)

    steps = agent.num_timesteps
    with pytest.raises(ConfigError, match=r"learn\(\) was called while this agent learns"):
        agent.learn(32, callbacks=[Again()], progress=False)
    assert agent.learn(32, progress=False).status == "finished"
    assert agent.num_timesteps == steps + 8 + 32


def test_an_environment_object_is_still_taken_by_name() -> None:
    assert PPO(env=gym.make("CartPole-v1"), **SMALL).config.env.id == "CartPole-v1"
