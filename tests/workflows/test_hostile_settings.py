"""Settings, configs and calls that were once taken silently, or ended in a traceback: now one sentence each."""

from __future__ import annotations

import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml

import rl_training
from rl_base.strict_yaml import parse_yaml
from rl_training import BC, DQN, PPO, RLPD, Agent, Callback, ConfigError, Dataset, PPOConfig, evaluation, make_data
from rl_training.api.inputs import encode_observation
from rl_training.cli import main
from rl_training.config.presets import load_yaml
from rl_training.core import Schedule
from rl_training.envs import EnvConfig, check
from rl_training.envs.spaces import convert_spec
from rl_training.experiment import RunDirectory

OBS = np.zeros(4)
SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}
CARTPOLE = EnvConfig(id="CartPole-v1")


class Never(Callback):
    interval = 0


@pytest.fixture(scope="module")
def agent() -> PPO:
    return PPO("CartPole-v1", **SMALL)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "steps.npz"
    make_data(EnvConfig(id="CartPole-v1"), ["random"], 64).save(path)
    return path


TWICE = {
    "flat and in its section": (lambda: PPO("CartPole-v1", seed=1, training={"seed": 2}), "training.seed", "1", "2"),
    "the same value": (lambda: PPO("CartPole-v1", seed=1, training={"seed": 1}), "training.seed is given twice"),
    "of the algorithm": (
        lambda: PPO("CartPole-v1", algorithm={"gamma": 0.9}, gamma=0.8),
        "algorithm.gamma",
        "0.9",
        "0.8",
    ),
    "by an alias": (
        lambda: DQN("CartPole-v1", buffer_capacity=100, algorithm={"buffer_size": 50}),
        "algorithm.buffer_capacity and algorithm.buffer_size are the same setting",
    ),
    "data": (
        lambda: BC("CartPole-v1", dataset="x.npz", data={"path": "y.npz"}),
        "dataset= and data=",
        "give one of them",
    ),
}


@pytest.mark.parametrize("kind", TWICE)
def test_what_is_given_twice_is_refused(kind: str) -> None:
    call, *parts = TWICE[kind]
    with pytest.raises(ConfigError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_sections_and_keywords_that_do_not_meet_are_both_taken() -> None:
    config = PPO("CartPole-v1", seed=1, training={"log_interval": 5}, **SMALL).config
    assert (config.training.seed, config.training.log_interval) == (1, 5)
    pretrained = {"offline_pretrain_updates": 8, "total_timesteps": 50, "learning_starts": 8}
    pendulum = make_data(EnvConfig(id="Pendulum-v1"), ["random"], 16)
    config = RLPD("Pendulum-v1", dataset=pendulum, **pretrained).config
    assert (config.training.total_updates, config.training.total_timesteps) == (8, 50)


YAML_TWICE = {
    "of a section": (
        "algorithm: {name: ppo}\nenv: {id: CartPole-v1}\ntraining:\n  seed: 1\n  seed: 2\n",
        "'seed'",
        "4 and 5",
    ),
    "a section": ("algorithm: {name: ppo}\nenv: {id: A}\nenv: {id: B}\n", "'env'", "lines 2 and 3"),
    "in one line": ("algorithm: {name: ppo, gamma: 0.9, gamma: 0.8}\nenv: {id: CartPole-v1}\n", "'gamma'", "in line 1"),
    "deep inside": ("algorithm: {name: ppo, net_arch: {pi: [1], pi: [2]}}\nenv: {id: CartPole-v1}\n", "'pi'"),
}


@pytest.mark.parametrize("kind", YAML_TWICE)
def test_a_yaml_key_given_twice_is_refused_with_file_and_line(kind: str, tmp_path, capsys) -> None:
    text, *parts = YAML_TWICE[kind]
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_yaml(file)
    for part in (str(file), "is given twice", "give it once", *parts):
        assert part in str(caught.value)
    assert main(["train", str(file), "--run-dir", str(tmp_path / "run")]) == 2
    assert "is given twice" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_yaml_merges_and_overrides() -> None:
    """Also where a mapping is merged before the place where it was written has been read."""
    text = "base: &b {x: 1, y: 2}\ndeep: {inner: &c {<<: *b, x: 3}}\nboth: {<<: [*c, *b], z: 4}\n"
    values = parse_yaml(text)
    assert values == {"base": {"x": 1, "y": 2}, "deep": {"inner": {"x": 3, "y": 2}}, "both": {"x": 3, "y": 2, "z": 4}}
    with pytest.raises(yaml.YAMLError, match="the key '<<' is given twice, in line 1"):
        parse_yaml("a: {<<: {x: 1}, <<: {y: 2}}")


ODD_YAML = {
    "nested too deeply": "[" * 1200,
    "no date": "algorithm: 2024-13-45\n",
    "a tag": "algorithm: !!python/object:os.system {}\n",
    "a list": "- 1\n",
    "nothing": "",
}


@pytest.mark.parametrize("kind", ODD_YAML)
def test_files_that_are_no_config_are_one_sentence(kind: str, tmp_path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(ODD_YAML[kind])
    with pytest.raises(ConfigError, match=str(file)):
        load_yaml(file)


SETTINGS = {
    "section is no mapping": (lambda: PPO("CartPole-v1", training=5), "training=5 must be a mapping"),
    "run_dir is a number": (lambda: PPO("CartPole-v1", run_dir=5), "run_dir=5 is not a path"),
    "preset is a number": (lambda: PPO.from_preset(5), "from_preset(5) takes the name of a preset"),
    "overrides are numbers": (lambda: PPO.from_preset("ppo/cartpole", overrides=[5]), "--set 5 must look like"),
    "load nothing": (lambda: rl_training.load(None), "path=None is not a path"),
    "load an empty path": (lambda: PPO.load(""), "path='' is not a path"),
    "resume a number": (lambda: PPO.resume(3), "run_dir=3 is not a path"),
    "path with null": (lambda: rl_training.load("a\0b"), "holds a zero byte"),
    "a class without an algorithm": (lambda: Agent("CartPole-v1"), "Agent is no algorithm: use PPO"),
    "dataset without a path": (lambda: Dataset.open(None), "path=None is not a path"),
    "data of a number": (lambda: make_data(5, ["random"], 8), "env=5 is not an environment: pass an id"),
    "data of text steps": (lambda: make_data(CARTPOLE, ["random"], "x"), "steps='x' must be a whole number"),
    "data of one policy": (lambda: make_data(CARTPOLE, "random", 8), "policies='random' must be a list"),
    "data of a negative seed": (lambda: make_data(CARTPOLE, ["random"], 8, seed=-1), "seed=-1 must be at least 0"),
    "long name": (lambda: rl_training.load("n" * 300), "cannot be used (File name too long)"),
    "env twice": (
        lambda: PPO("CartPole-v1", env={"id": "CartPole-v1"}, n_steps=16),
        "PPO(): env is given twice, as 'CartPole-v1' and {'id': 'CartPole-v1'}: give it once",
        "settings of the environment are keywords of their own, such as n_envs=4",
    ),
    "an empty info key": (lambda: PPO("CartPole-v1", info_keys=[""]), "env.info_keys holds an empty name"),
    "settings of another algorithm": (
        lambda: PPO.from_preset("ppo/cartpole", overrides=["algorithm.name=dqn"]),
        "algorithm.n_epochs is not a setting of dqn: it is one of ppo",
        "leave it out",
    ),
    "a keyword of another algorithm": (
        lambda: PPO("CartPole-v1", buffer_size=100),
        "buffer_size=100 is not a setting of ppo: it is one of ",
        " and others, leave it out",
    ),
    "a config that is none": (
        lambda: rl_training.RunConfig.from_mapping(None),
        "not None: a config needs the sections algorithm (with name) and env (with id)",
    ),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_values_of_the_wrong_kind(kind: str) -> None:
    call, *parts = SETTINGS[kind]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the parts say which)
        call()
    for part in parts:
        assert part in str(caught.value)


CALLS = {
    "save nothing": (lambda a: a.save(None), "path=None is not a path"),
    "save to a long name": (lambda a: a.save("n" * 300), "cannot be used (File name too long)"),
    "learn(True)": (lambda a: a.learn(True), "total_timesteps=True must be a whole number"),
    "learn(nan)": (lambda a: a.learn(float("nan")), "total_timesteps=nan must be a whole number"),
    "learn of a list": (lambda a: a.learn([64]), "total_timesteps=[64] must be a whole number"),
    "evaluate with a wrong watch": (lambda a: a.evaluate(1, watch=5), "watch=5 must be a function"),
    "predict of a huge number": (lambda a: a.predict([10**400] * 4), "the observation is not numeric"),
    "predict beyond float32": (lambda a: a.predict([1e300, 0, 0, 0]), "holds 1e+300", "float32 ends at 3.4e+38"),
    "predict of complex numbers": (lambda a: a.predict(np.full(4, 1 + 1j)), "is not numeric", "complex128"),
    "predict of texts": (lambda a: a.predict(["1", "2", "3", "4"]), "the observation is not numeric", "<U1"),
    "predict of a dict": (lambda a: a.predict({"obs": OBS}), "the observation is a dict, and the space has no keys"),
    "predict of uneven rows": (lambda a: a.predict([OBS, [1.0]]), "its parts have different lengths"),
    "a path instead of data": (
        lambda a: evaluation.off_policy(a, "logged.npz"),
        "data='logged.npz' is not a Dataset: open it, Dataset.open(path)",
    ),
    "a path instead of an agent": (
        lambda a: evaluation.fitted_q("runs/x", a),
        "agent='runs/x' is not an agent: load it, rl_training.load(path)",
    ),
    "predict with a state": (lambda a: a.predict(OBS, state=(np.zeros(3),)), "state was given", "has no memory"),
    "predict with a word": (lambda a: a.predict(OBS, None, "no"), "episode_start is not numeric"),
    "predict with a share": (lambda a: a.predict(OBS, None, 0.3), "episode_start=0.3 must be true or false"),
    "predict with two starts": (lambda a: a.predict(OBS, None, [True, False]), "episode_start has shape (2,)"),
    "predict with text": (lambda a: a.predict(OBS, deterministic="False"), "deterministic='False' must be true or"),
    "predict with None": (lambda a: a.predict(OBS, deterministic=None), "deterministic=None must be true or false"),
    "evaluate with text": (lambda a: a.evaluate(1, deterministic="no"), "deterministic='no' must be true or false"),
    "learn with text": (lambda a: a.learn(8, progress="no"), "progress='no' must be true or false"),
    "an interval of nothing": (
        lambda a: a.learn(8, callbacks=Never()),
        "Never.interval=0 must be",
        "at least 1, or None",
    ),
    "evaluate(0)": (lambda a: a.evaluate(0), "num_episodes=0 must be at least 1"),
    "evaluate with a text seed": (lambda a: a.evaluate(1, seed="x"), "seed='x' must be a whole number"),
    "evaluate with a negative seed": (lambda a: a.evaluate(1, seed=-1), "seed=-1 must be at least 0"),
    "evaluate with no seed": (lambda a: a.evaluate(1, seed=None), "seed=None must be a whole number"),
}


@pytest.mark.parametrize("kind", CALLS)
def test_calls_with_values_of_the_wrong_kind(kind: str, agent: PPO) -> None:
    call, *parts = CALLS[kind]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call(agent)
    for part in parts:
        assert part in str(caught.value)


def test_numbers_of_numpy_are_numbers(agent: PPO) -> None:
    config = PPO("CartPole-v1", seed=np.int64(3), n_steps=np.int32(32), batch_size=32, gamma=np.float32(0.5)).config
    assert (config.training.seed, config.experience.n_steps, config.algorithm.gamma) == (3, 32, 0.5)
    assert type(config.training.seed) is type(config.experience.n_steps) is int
    for kind in (np.float16, np.float32, np.float64, np.longdouble, np.array):
        rate, layers = kind(0.5), np.array([8, 4])
        found = PPO("CartPole-v1", PPOConfig(learning_rate=rate, gamma=rate, net_arch=layers)).config.algorithm
        assert (found.learning_rate, found.gamma, found.net_arch.pi) == (Schedule(0.5, 0.5), 0.5, (8, 4))
    assert agent.evaluate(np.int64(1), seed=np.int64(2)).returns == agent.evaluate(1, seed=2).returns
    assert agent.predict(OBS, deterministic=np.True_)[0] == agent.predict(OBS, None, np.int64(1))[0]


def test_the_file_that_is_handed_over_is_the_one_that_is_learned_from(data: Path, tmp_path) -> None:
    other = tmp_path / "other.npz"
    make_data(EnvConfig(id="CartPole-v1"), ["random"], 64, seed=5).save(other)
    agent = BC("CartPole-v1", dataset=data, net_arch=[8])
    agent.learn(total_updates=2, progress=False)
    agent.save(tmp_path / "m")
    with pytest.raises(ConfigError, match="is not the one this run learned from"):
        rl_training.load(tmp_path / "m", dataset=other)
    moved = tmp_path / "moved.npz"
    moved.write_bytes(data.read_bytes())
    assert rl_training.load(tmp_path / "m", dataset=moved).learn(total_updates=2, progress=False).status == "finished"


def test_load_on_what_is_no_device(agent: PPO, tmp_path) -> None:
    agent.save(tmp_path / "m")
    for device in (5, torch.device("cpu")):
        with pytest.raises(ConfigError, match=r"training.device=.* must be text"):
            rl_training.load(tmp_path / "m", device=device)


def test_settings_of_numpy_are_saved_and_objects_are_refused(tmp_path) -> None:
    plain = PPO("CartPole-v1", kwargs={"sutton_barto_reward": np.bool_(True)}, **SMALL)
    plain.save(tmp_path / "m")
    assert rl_training.load(tmp_path / "m").config.env.kwargs == {"sutton_barto_reward": True}

    def make(tools: object) -> gym.Env:
        return gym.make("CartPole-v1")

    agent = PPO(make, kwargs={"tools": object()}, run_dir=tmp_path / "run", **SMALL)
    for call in (lambda: agent.save(tmp_path / "x"), lambda: agent.learn(8, progress=False)):
        with pytest.raises(ConfigError, match="of type object is a setting that no file can hold"):
            call()
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "run").exists()


def test_a_budget_beyond_all_time_is_shown(agent: PPO, capsys) -> None:
    class Stop(Callback):
        def on_steps(self, trainer, episodes) -> None:
            trainer.request_stop("enough")

    twin = PPO("CartPole-v1", compile=False, **SMALL)
    assert twin.learn(10**30, callbacks=Stop()).status == "stopped"


def test_two_threads_do_not_learn_at_once(agent: PPO) -> None:
    """They would draw from one stream of random numbers, and neither run could be repeated."""
    inside, found = threading.Event(), []

    class Wait(Callback):
        def on_start(self, trainer) -> None:
            inside.set()
            thread.join()

    def learn_too() -> None:
        inside.wait()
        try:
            PPO("CartPole-v1", **SMALL).learn(8, progress=False)
        except ValueError as error:
            found.append(str(error))

    thread = threading.Thread(target=learn_too)
    thread.start()
    agent.learn(8, callbacks=Wait(), progress=False)
    assert len(found) == 1
    assert "in another thread" in found[0]
    assert agent.learn(8, progress=False).status == "finished"


def test_one_object_cannot_be_several_environments() -> None:
    shared = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match="returned the same object twice"):
        rl_training.PPO(lambda: shared, n_envs=3)


@pytest.mark.parametrize("trust", [None, 3])
def test_trust_must_be_a_list(trust, tmp_path) -> None:
    rl_training.PPO("CartPole-v1").save(tmp_path / "m")
    with pytest.raises(rl_training.ConfigError, match=r"must be a list"):
        rl_training.load(tmp_path / "m", trust=trust)


def test_parts_of_an_observation_have_as_many_rows() -> None:
    spaces = gym.spaces.Dict(a=gym.spaces.Box(-1, 1, (2,)), b=gym.spaces.Discrete(3))
    parts = {"a": [[0.0, 0.0], [0.0, 0.0]], "b": [2]}
    with pytest.raises(rl_training.ConfigError, match=r"different numbers of rows, \{'a': 2, 'b': 1\}"):
        encode_observation(parts, convert_spec(spaces, gym.spaces.Discrete(2)).obs, torch.device("cpu"))


def test_checkpoint_settings_without_a_folder_are_noted(tmp_path, told) -> None:
    PPO("CartPole-v1", checkpoint={"interval": 8}, run_dir=tmp_path / "run", **SMALL)
    assert told() == ""
    PPO("CartPole-v1", checkpoint={"interval": 8}, **SMALL)
    assert "checkpoint= has no effect without a folder to write to: pass run_dir=" in told()


def test_a_run_directory_that_is_a_file_is_said_to_be_one(tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"run directory .*file is a file: choose the name of a folder"):
        PPO("CartPole-v1", run_dir=tmp_path / "file", **SMALL).learn(8, progress=False)


@pytest.mark.parametrize("begun", [True, False])
def test_a_run_of_another_algorithm_is_resumed_with_its_own_class(begun: bool, tmp_path) -> None:
    agent = PPO("CartPole-v1", run_dir=tmp_path / "run", compile=False, **SMALL)
    if begun:
        agent.learn(8, progress=False)
    else:
        RunDirectory.create(tmp_path / "run", agent.config)
    with pytest.raises(ConfigError, match=r"holds 'ppo', not 'dqn': use PPO\.resume\('.*/run'\)"):
        DQN.resume(tmp_path / "run")


def test_a_saved_model_is_not_resumed_but_loaded(agent: PPO, tmp_path) -> None:
    agent.save(tmp_path / "model")
    with pytest.raises(
        ConfigError, match=r"is a saved model or a checkpoint, not a run directory: use rl_training.load"
    ):
        PPO.resume(tmp_path / "model")


def test_check_of_what_is_no_environment() -> None:
    with pytest.raises(ValueError, match="env=3 is not an environment: pass an id, a function that returns one"):
        check(3)  # pyrefly: ignore


def test_a_device_and_a_folder_may_be_objects(tmp_path) -> None:
    config = DQN("CartPole-v1", device=torch.device("cpu"), buffer_folder=tmp_path).config  # pyrefly: ignore
    assert (config.training.device, config.experience.buffer_folder) == ("cpu", str(tmp_path))
