"""Everything people get wrong: one clear sentence each, and nothing is written."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import (
    A2C,
    C51,
    DQN,
    IQN,
    PPO,
    PQN,
    REDQ,
    SAC,
    TD3,
    TQC,
    Agent,
    ConfigError,
    CrossQ,
    DiscreteSAC,
    NonFiniteError,
    RainbowDQN,
    load,
)
from rl_training.cli import main
from rl_training.experience.settings import STORES
from rl_training.experiment.foreign_names import SETTINGS, SETTINGS_ADVICE
from rl_training.experiment.registry import ALGORITHMS
from tests.envs.counting import CountingEnv

SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}


def listing(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def altered(**changes: object) -> type[gym.Env]:
    """A counting environment with some attributes replaced."""

    class Altered(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            vars(self).update({key: value for key, value in changes.items() if key.endswith("_space")})

        def observation(self):
            return changes["observation"] if "observation" in changes else super().observation()

        def step(self, action):
            obs, reward, *rest = super().step(action)
            return changes.get("step_observation", obs), changes.get("reward", reward), *rest

    return Altered


def discrete_with_mask(size: int) -> type[gym.Env]:
    spaces = {"x": gym.spaces.Box(-1, 1, (2,)), "action_mask": gym.spaces.MultiBinary(size)}
    return altered(observation_space=gym.spaces.Dict(spaces))


def not_an_env() -> str:
    return "CartPole-v1"


BOX = gym.spaces.Box(-1, 1, (2,))
NESTED = gym.spaces.Dict({"outer": gym.spaces.Dict({"inner": BOX})})

# what is done, and the parts of the sentence: field, value, fix
PYTHON = {
    "unknown key": (lambda: PPO("CartPole-v1", n_stepz=8), "n_stepz=8 is not a setting of ppo: did you mean 'n_steps'?"),
    "wrong type": (lambda: PPO("CartPole-v1", n_steps="many"), "experience.n_steps='many' must be a whole number"),
    "fraction for a count": (lambda: PPO("CartPole-v1", n_envs=1.5), "env.n_envs=1.5 must be a whole number"),
    "out of range": (lambda: PPO("CartPole-v1", gamma=1.5), "algorithm.gamma=1.5 must be at most 1"),
    "zero": (lambda: PPO("CartPole-v1", n_envs=0), "env.n_envs=0 must be at least 1"),
    "nan": (lambda: PPO("CartPole-v1", vf_coef=float("nan")), "algorithm.vf_coef=nan must be finite"),
    "infinite": (lambda: PPO("CartPole-v1", learning_rate=float("inf")), "algorithm.learning_rate=inf"),
    "negative seed": (lambda: PPO("CartPole-v1", seed=-1), "training.seed=-1 must be at least 0"),
    "empty layer": (lambda: PPO("CartPole-v1", net_arch=[64, 0]), "algorithm.net_arch.pi[1]=0 must be at least 1"),
    "choice": (lambda: PPO("CartPole-v1", activation_fn="rellu"), "algorithm.activation_fn='rellu' is not one of", "'relu'?"),
    "cleanrl spelling": (lambda: PPO("CartPole-v1", num_envs=4), "num_envs=4", "here it is called n_envs"),
    "cleanrl clipping": (lambda: PPO("CartPole-v1", clip_coef=0.1), "clip_coef=0.1", "here it is called clip_range"),
    "sb3 policy_kwargs": (lambda: PPO("CartPole-v1", policy_kwargs={}), "policy_kwargs={}", "give net_arch, activation_fn"),
    "sb3 verbose": (lambda: PPO("CartPole-v1", verbose=1), "verbose=1", "progress=False in learn()"),
    "tianshou spelling": (lambda: A2C("CartPole-v1", discount_factor=0.9), "discount_factor=0.9", "called gamma"),
    "callable schedule": (
        lambda: PPO("CartPole-v1", learning_rate=lambda progress: 1e-3 * progress),
        "algorithm.learning_rate at progress 0",
        "=0.0 must be above 0",
    ),
    "unknown schedule": (lambda: PPO("CartPole-v1", clip_range="cos_0.2"), "algorithm.clip_range='cos_0.2'"),
    "unknown preset": (lambda: PPO.from_preset("ppo/cartpol"), "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
    "unknown algorithm": (
        lambda: PPO.from_preset("ppo/cartpole", overrides=["algorithm.name=pppo"]),
        "algorithm.name='pppo' is not an algorithm: did you mean 'ppo'?",
    ),
    "unknown env": (lambda: PPO("CartPol-v1"), "env.id='CartPol-v1' is not a registered environment", "CartPole-v1"),
    "old env version": (lambda: PPO("LunarLander-v2"), "env.id='LunarLander-v2'", "LunarLander-v3"),
    "malformed env": (lambda: PPO("Cart Pole!"), "env.id='Cart Pole!'"),
    "env kwargs": (lambda: PPO("CartPole-v1", kwargs={"gravity": 1}), "env.kwargs={'gravity': 1} was refused by CartPole-v1"),
    "missing factory": (
        lambda: PPO("no_such_module:make"), "env.id='no_such_module:make' cannot be imported", "package.module:name",
    ),
    "factory without env": (lambda: PPO(not_an_env), "returned str: a factory must return a gymnasium.Env"),
    "no env at all": (lambda: PPO(42), "env=42 is not an environment: pass an id"),
    "env without spec": (lambda: PPO(CountingEnv()), "CountingEnv was handed over as an object without a spec", "pass a function"),
    "batch larger than rollout": (
        lambda: PPO("CartPole-v1", n_steps=8, n_envs=2, batch_size=64),
        "algorithm.batch_size=64 is larger than a rollout (n_steps 8 x n_envs 2 = 16): lower batch_size or raise n_steps",
    ),
    "minibatch of one": (
        lambda: PPO("CartPole-v1", n_steps=9, batch_size=8),
        "algorithm.batch_size=8 leaves a minibatch of one sample out of 9",
        "normalize_advantage=false",
    ),
    "tf without rmsprop": (
        lambda: A2C("CartPole-v1", rms_prop_tf=True, use_rms_prop=False),
        "algorithm.rms_prop_tf=true has no effect with use_rms_prop=false: set use_rms_prop=true",
    ),
    "steps between updates": (
        lambda: DQN("CartPole-v1", n_envs=3),
        "experience.train_freq=4 must be a multiple of env.n_envs=3", "use 6",
    ),
    "no updates": (lambda: DQN("CartPole-v1", gradient_steps=0), "algorithm.gradient_steps=0 never learns: use 1, or -1"),
    "fewer than no updates": (lambda: DQN("CartPole-v1", gradient_steps=-2), "algorithm.gradient_steps=-2 must be at least -1"),
    "start before the start": (lambda: DQN("CartPole-v1", learning_starts=-1), "experience.learning_starts=-1 must be at least 0"),
    "batch larger than the buffer": (
        lambda: DQN("CartPole-v1", batch_size=64, buffer_size=32),
        "algorithm.batch_size=64 is larger than buffer_size=32: lower batch_size or raise buffer_size",
    ),
    "buffer shorter than a return": (
        lambda: DQN("CartPole-v1", n_steps=20, n_envs=4, buffer_size=64),
        "experience.buffer_size=64 holds fewer than n_steps=20 steps of 4 environments: raise it",
    ),
    "buffer larger than memory": (
        lambda: DQN("CartPole-v1", buffer_size=10**12).learn(10, progress=False),
        "experience.buffer_size=1000000000000 needs 29000.00 GB", "free on cpu: choose a smaller one", "experience.buffer_folder",
    ),
    "buffer in a folder that is not there": (
        lambda: DQN("CartPole-v1", buffer_folder="nowhere").learn(10, progress=False),
        "experience.buffer_folder='nowhere' is not a folder: make it, or name another",
    ),
    "target that stands still": (lambda: DQN("CartPole-v1", tau=0), "algorithm.tau=0.0 must be above 0"),
    "correction above one": (lambda: DQN("CartPole-v1", per_beta=2.0), "algorithm.per_beta=2.0 must be at most 1"),
    "noise without noisy layers": (
        lambda: DQN("CartPole-v1", exploration="noisy"), "algorithm.exploration='noisy' needs noisy layers: set noisy=true",
    ),
    "loss of another head": (
        lambda: C51("CartPole-v1", loss="mse"), "algorithm.loss='mse' is for head='mean': head='c51' has a loss of its own",
    ),
    "head": (lambda: DQN("CartPole-v1", head="c52"), "algorithm.head='c52' is not one of", "did you mean 'c51'?"),
    "returns without room": (lambda: C51("CartPole-v1", v_min=1, v_max=1), "algorithm.v_min=1.0 must be below v_max=1.0"),
    "returns that are not numbers": (lambda: C51("CartPole-v1", v_min=float("nan")), "algorithm.v_min=nan must be finite"),
    "one atom": (lambda: RainbowDQN("CartPole-v1", n_atoms=1), "algorithm.n_atoms=1 must be at least 2"),
    "no fractions": (lambda: IQN("CartPole-v1", n_samples=0), "algorithm.n_samples=0 must be at least 1"),
    "temperature that vanishes": (
        lambda: DQN("CartPole-v1", exploration="boltzmann", temperature="lin_1.0"),
        "algorithm.temperature must stay above 0: give the schedule a small final value",
    ),
    "networks of another family": (
        lambda: DQN("CartPole-v1", net_arch={"pi": [64]}), "algorithm.net_arch={'pi': [64]} must be a list",
    ),
    "rewards are not scaled in a replay": (
        lambda: DQN("CartPole-v1", normalize_reward=True), "normalize_reward=True is not a setting of dqn",
    ),
    "batch larger than q-learning's rollout": (
        lambda: PQN("CartPole-v1", n_steps=8, batch_size=64),
        "algorithm.batch_size=64 is larger than a rollout (n_steps 8 x n_envs 1 = 8)",
    ),
    "q-values of a continuum": (lambda: DQN("Pendulum-v1"), "DQN needs Discrete actions, but this environment has Box: use PPO"),
    "discrete sac in a continuum": (lambda: DiscreteSAC("Pendulum-v1"), "DiscreteSAC needs Discrete actions", "has Box"),
    "pqn in a continuum": (lambda: PQN("Pendulum-v1"), "PQN needs Discrete actions", "has Box"),
    "q-values of several choices": (
        lambda: DQN(altered(action_space=gym.spaces.MultiDiscrete([2, 2]))), "DQN needs Discrete actions", "has MultiDiscrete",
    ),
    "continuous actions of a choice": (
        lambda: SAC("CartPole-v1"), "SAC needs Box actions, but this environment has Discrete: use DQN, DiscreteSAC or PPO",
    ),
    "actions without bounds": (
        lambda: TD3(altered(action_space=gym.spaces.Box(-np.inf, np.inf, (1,)))),
        "TD3 acts between two bounds", "action 0 of this environment has low=-inf and high=inf: give its Box both", "TransformAction",
    ),
    "actions with half a bound": (
        lambda: SAC(altered(action_space=gym.spaces.Box(0, np.inf, (1,)))),
        "action 0 of this environment has low=0 and high=inf: give its Box both", "or use PPO",
    ),
    "temperature in words": (
        lambda: SAC("Pendulum-v1", ent_coef="warm"), "algorithm.ent_coef='warm' is not understood: use 'auto', 'auto_0.1'",
    ),
    "no temperature": (lambda: SAC("Pendulum-v1", ent_coef=0), "algorithm.ent_coef=0", "above 0"),
    "wanted entropy in words": (lambda: SAC("Pendulum-v1", target_entropy="low"), "algorithm.target_entropy='low'"),
    "more critics than there are": (
        lambda: REDQ("Pendulum-v1", n_critics=1), "algorithm.critic_subset=2 is more than n_critics=1: lower it",
    ),
    "no quantiles left": (
        lambda: TQC("Pendulum-v1", n_quantiles=2), "algorithm.top_quantiles_to_drop_per_net=2 leaves nothing of n_quantiles=2",
    ),
    "targets where there are none": (
        lambda: CrossQ("Pendulum-v1", tau=0.01), "algorithm.tau=0.01 has no effect in CrossQ, because it has no target networks",
    ),
    "noise of another kind": (lambda: TD3("Pendulum-v1", action_noise="uo"), "algorithm.action_noise='uo'", "did you mean 'ou'?"),
    "negative noise": (lambda: TD3("Pendulum-v1", action_noise_std=-0.1), "algorithm.action_noise_std=-0.1 must be at least 0"),
    "cleanrl delay": (lambda: TD3("Pendulum-v1", policy_frequency=2), "policy_frequency=2", "here it is called policy_delay"),
    "no native version": (
        lambda: PPO("LunarLander-v3", backend="native"),
        "env.id='LunarLander-v3' has no native version: use one of CartPole-v1",
        "env.backend='gymnasium'",
    ),
    "native with workers": (
        lambda: PPO("CartPole-v1", backend="native", vectorization="async"),
        "env.vectorization='async' is for gymnasium: native environments need none",
    ),
    "no vector entry point": (lambda: PPO("Pendulum-v1", vectorization="vector_entry_point"), "env.id='Pendulum-v1'"),
    "early stop without evaluations": (
        lambda: PPO("CartPole-v1", evaluation={"stop_at_return": 1.0}),
        "evaluation.stop_at_return needs evaluations during training: set evaluation.interval",
    ),
    "tuple observation": (
        lambda: PPO(altered(observation_space=gym.spaces.Tuple([BOX]))),
        "the observation space Tuple(", "is not supported: wrap the environment",
    ),
    "text observation": (
        lambda: PPO(altered(observation_space=gym.spaces.Text(5))),
        "the observation space Text(", "is not supported: wrap the environment",
    ),
    "nested dictionary": (
        lambda: PPO(altered(observation_space=NESTED)), "the observation 'outer' is nested", "flatten the dictionary",
    ),
    "dictionary of actions": (
        lambda: PPO(altered(action_space=gym.spaces.Dict({"a": BOX}))),
        "the action space Dict(", "is not supported: use Box, Discrete, MultiDiscrete or MultiBinary",
    ),
    "mask of wrong size": (
        lambda: PPO(discrete_with_mask(3)), "observation 'action_mask' has 3 entries", "it needs 2",
    ),
    "lambda encoder": (
        lambda: PPO("CartPole-v1", encoder="<lambda>"),
        "encoder='<lambda>' names no code", "package.module:name",
    ),
    "encoder of another kind": (
        lambda: PPO("CartPole-v1", encoder="builtins:str"), "encoder='builtins:str' must return a torch module",
    ),
    "vector env of another size": (
        lambda: PPO(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), n_envs=3),
        "n_envs=3, but the vector environment has 2",
    ),
    "settings beside a config": (
        lambda: PPO(PPO("CartPole-v1").config, n_steps=8), "n_steps is given beside a RunConfig, which is the whole run: change",
    ),
    "unknown device": (lambda: PPO("CartPole-v1", device="gpu"),
        "training.device='gpu' is not a device to train on: use 'cpu' or 'cuda'"),
    "negative budget": (lambda: PPO("CartPole-v1").learn(-5), "total_timesteps=-5 must be at least 1"),
    "budget that is no number": (lambda: PPO("CartPole-v1").learn("long"), "total_timesteps='long' must be a whole number"),
    "pause before the start": (lambda: PPO("CartPole-v1").learn(10, stop_at=0), "stop_at=0 must be at least 1"),
    "no episodes": (lambda: PPO("CartPole-v1").evaluate(0), "num_episodes=0 must be at least 1"),
    "evaluation seed": (lambda: PPO("CartPole-v1").evaluate(1, seed=-1), "seed=-1 must be at least 0"),
    "observation of wrong shape": (
        lambda: PPO("CartPole-v1").predict([0.0, 1.0]), "the observation has shape (2,): it must be (4,)", "'batch', 4",
    ),
    "observation of words": (lambda: PPO("CartPole-v1").predict(["a", "b", "c", "d"]), "the observation is not numeric"),
    "observation not finite": (lambda: PPO("CartPole-v1").predict([0, 0, 0, np.nan]), "the observation is not finite"),
    "observation out of range": (
        lambda: PPO(altered(observation_space=gym.spaces.Discrete(5, start=10))).predict(3),
        "the observation=3 must be whole numbers in 10 to 14",
    ),
    "observation between choices": (
        lambda: PPO(altered(observation_space=gym.spaces.Discrete(5))).predict(0.5),
        "the observation=0.5 must be whole numbers in 0 to 4",
    ),
    "missing model": (lambda: load("nowhere"), "nowhere does not exist: give a saved model, a checkpoint or a run directory"),
    "resume of nothing": (lambda: Agent.resume("nowhere"), "nowhere is not a run directory: it has no config.yaml"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PYTHON)
def test_python(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    act, *parts = PYTHON[kind]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        act()
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert "\n" not in message
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("device", ["gpu", "mps", "auto", "meta"])
def test_unknown_buffer_device(device):
    sentence = rf"experience\.buffer_device='{device}' is not a device to train on: use 'cpu' or 'cuda'"
    with pytest.raises(ConfigError, match=sentence):
        DQN("CartPole-v1", buffer_device=device)


# a command line and the parts of the one line on standard error
COMMANDS = {
    "unknown preset": ("train ppo/cartpol", "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
    "missing file": ("train missing.yaml", "missing.yaml cannot be read (No such file or directory)"),
    "yaml syntax": ("train syntax.yaml", "syntax.yaml is not valid YAML:", "line 2"),
    "yaml list": (
        "train list.yaml", "list.yaml does not hold a config: a config needs the sections algorithm (with name) and env (with id)",
    ),
    "binary file": ("train binary.yaml", "binary.yaml is not"),
    "section": ("train section.yaml", "trainning is not a section of a config: did you mean 'training'?"),
    "no env": ("train noenv.yaml", "env is missing: a config needs the sections algorithm (with name) and env (with id)"),
    "no env id": ("train noid.yaml", "env.id is missing: give it a value"),
    "section that is a number": ("train number.yaml", "training=5 must be a mapping of settings"),
    "set without value": ("train ppo/cartpole --set algorithm.n_steps", "--set 'algorithm.n_steps' must look like"),
    "set without section": ("train ppo/cartpole --set n_steps=5", "--set 'n_steps=5' must look like experience.n_steps=128"),
    "set unknown": ("train ppo/cartpole --set algorithm.n_stesp=5", "not a setting of ppo: did you mean experience.n_steps?"),
    "set section": ("train ppo/cartpole --set trainig.seed=5", "trainig is not a section of a config: did you mean 'training'?"),
    "set below a number": ("train ppo/cartpole --set algorithm.gamma.x=5", "gamma=0.98 has no fields of its own"),
    "set bad yaml": ("train ppo/cartpole --set algorithm.n_steps=[1", "the value is not valid YAML"),
    "seed": ("train ppo/cartpole --seed -1", "training.seed=-1 must be at least 0"),
    "seeds": ("train ppo/cartpole --seeds 1,x", "--seeds '1,x' must be whole numbers separated by commas"),
    "seed twice": ("train ppo/cartpole --seeds 1,1", "--seeds '1,1' names a seed twice"),
    "last seed wrong": ("train ppo/cartpole --seeds 1,-2", "training.seed=-2 must be at least 0"),
    "run dir exists": ("train ppo/cartpole --run-dir occupied", "run directory occupied exists: choose another, or continue it with"),
    "run dir of a later seed exists": ("train ppo/cartpole --seeds 1,2 --run-dir many", "run directory many/seed2 exists"),
    "run dir below a file": ("train ppo/cartpole --run-dir list.yaml/run", "run directory list.yaml/run cannot be written"),
    "run dir in proc": ("train ppo/cartpole --run-dir /proc/run", "run directory /proc/run cannot be written", "--run-dir"),
    "resume of a folder": ("resume occupied", "occupied is not a run directory: it has no config.yaml"),
    "eval of nothing": ("eval nowhere", "nowhere does not exist"),
    "eval without episodes": ("eval model --episodes 0", "num_episodes=0 must be at least 1"),
    "obs missing": ("predict model --obs missing.json", "--obs missing.json: cannot be read (No such file or directory)"),
    "obs invalid": ("predict model --obs syntax.yaml", "--obs syntax.yaml: not valid JSON"),
    "obs shape": ("predict model --obs short.json", "the observation has shape (2,): it must be (4,)"),
    "preset to a file that exists": ("presets copy ppo/cartpole list.yaml", "list.yaml exists: choose another name"),
    "preset below a file": ("presets copy ppo/cartpole list.yaml/x.yaml", "list.yaml/x.yaml cannot be written"),
    "diff of nothing": ("config diff ppo/cartpole ppo/cartpol", "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
}  # fmt: skip
FILES = {
    "syntax.yaml": "algorithm: {name: ppo\nenv: {id: CartPole-v1}\n",
    "list.yaml": "- ppo\n- CartPole-v1\n",
    "binary.yaml": "\x00\x01",
    "section.yaml": "algorithm: {name: ppo}\nenv: {id: CartPole-v1}\ntrainning: {seed: 1}\n",
    "noenv.yaml": "algorithm: {name: ppo}\n",
    "noid.yaml": "algorithm: {name: ppo}\nenv: {n_envs: 2}\n",
    "number.yaml": "algorithm: {name: ppo}\nenv: {id: CartPole-v1}\ntraining: 5\n",
    "short.json": "[1, 2]",
    "occupied/notes.txt": "mine",
    "many/seed2/notes.txt": "mine",
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("workplace")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    PPO("CartPole-v1", **SMALL).save(folder / "model")
    return folder


@pytest.mark.parametrize("kind", COMMANDS)
def test_command_line(kind, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    command, *parts = COMMANDS[kind]
    before = listing(workplace)
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert listing(workplace) == before


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("train ppo/cartpole --total-timesteps -5", "argument --total-timesteps: '-5' is not a positive whole number"),
        ("train ppo/cartpole --total-timesteps many", "argument --total-timesteps"),
        ("train ppo/cartpole --stop-at 0", "argument --stop-at: '0' is not a positive whole number"),
        ("train ppo/cartpole --seed 1 --seeds 1,2", "argument --seeds: not allowed with argument --seed"),
        ("trian ppo/cartpole", "invalid choice: 'trian'"),
        ("predict model", "the following arguments are required: --obs"),
    ],
)
def test_arguments(command, part, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    before = listing(workplace)
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    assert caught.value.code == 2
    assert part in capsys.readouterr().err.splitlines()[-1]
    assert listing(workplace) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu():
    with pytest.raises(ConfigError, match=r"training\.device='cuda', but this machine has no usable GPU: use 'cpu'"):
        PPO("CartPole-v1", device="cuda")


@pytest.mark.parametrize(
    ("env_id", "error", "fix"),
    [
        ("Hopper-v5", gym.error.DependencyNotInstalled("mujoco"), r"pip install 'rl-training\[mujoco\]'"),
        ("LunarLander-v3", ImportError("No module named 'Box2D'"), r"pip install 'rl-training\[box2d\]'"),
    ],
)
def test_missing_package_of_an_environment(env_id, error, fix, monkeypatch, tmp_path):
    """The package may well be installed here, so gymnasium's refusal is played back."""

    def refuse(*arguments: object, **keywords: object) -> None:
        raise error

    monkeypatch.setattr(gym, "make", refuse)
    with pytest.raises(ValueError, match=rf"env.id='{env_id}'.*{fix}"):
        PPO(env_id, run_dir=tmp_path / "run")
    assert listing(tmp_path) == {}


NAN = np.array([0, np.nan], np.float32)
SHAPES = ["(2,)", "observation_space"]
CORRECT = "correct the environment"
MISBEHAVIOUR: dict[str, tuple[dict, type[Exception], list[str]]] = {
    "wrong shape at reset": ({"observation": np.zeros(3, np.float32)}, ValueError, ["shape (3,)", *SHAPES]),
    "wrong shape in step": ({"step_observation": np.zeros(5, np.float32)}, ValueError, ["shape (5,)", *SHAPES]),
    "nan observation": (
        {"step_observation": NAN},
        NonFiniteError,
        ["observation of environment 0 is not finite", CORRECT],
    ),
    "infinite reward": (
        {"reward": np.inf},
        NonFiniteError,
        ["the reward of environment 0 is not finite (inf)", CORRECT],
    ),
    "reward of wrong shape": ({"reward": np.zeros(3)}, ValueError, ["reward"]),
}


@pytest.mark.parametrize("kind", MISBEHAVIOUR)
def test_environments_that_misbehave(kind, tmp_path):
    changes, error, parts = MISBEHAVIOUR[kind]
    with pytest.raises(error) as caught:
        PPO(altered(**changes), **SMALL, run_dir=tmp_path / "run").learn(64, progress=False)
    for part in parts:
        assert part in str(caught.value)
    assert list(tmp_path.glob("run/checkpoints/*")) == []  # no checkpoint of a broken run


def test_a_loss_that_is_not_finite_names_itself():
    agent = PPO(altered(reward=1e30), **SMALL, vf_coef=1e10)
    with pytest.raises(NonFiniteError, match=r"loss became \w+ in update \d+ .*lower algorithm.learning_rate"):
        agent.learn(64, progress=False)


def test_hints_for_other_libraries_names_exist_here():
    fields = {field.name for entry in ALGORITHMS.values() for field in dataclasses.fields(entry.config)}
    fields |= {field.name for store in STORES.values() for field in dataclasses.fields(store)}
    fields |= {"n_envs", "total_timesteps", "info_keys"}
    assert set(SETTINGS.values()) <= fields
    assert not fields & {*SETTINGS, *SETTINGS_ADVICE}


class NoActionLeft(gym.Env):
    """Returns a mask that forbids everything."""

    observation_space = gym.spaces.Dict({"x": gym.spaces.Box(-1, 1, (1,)), "action_mask": gym.spaces.MultiBinary(2)})
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"x": np.zeros(1, np.float32), "action_mask": np.zeros(2, np.int8)}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


class OldInterface(gym.Env):
    """Steps as gym did before gymnasium."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, {}


@pytest.mark.parametrize(
    ("env", "message"), [(NoActionLeft, "without an allowed action"), (OldInterface, "four are the old gym API")]
)
def test_environments_that_leave_no_choice_or_speak_the_old_interface(env: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PPO(env, n_steps=8, batch_size=8, compile=False).learn(8, progress=False)


def test_the_mistakes_of_habit_get_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"names a policy first: begin with the environment, PPO\('CartPole-v1'\)"):
        PPO("MlpPolicy", "CartPole-v1")
    with pytest.raises(ConfigError, match="must be a list"):
        PPO.from_preset("ppo/cartpole", overrides="training.seed=1")
    agent = PPO("CartPole-v1", n_steps=np.int64(8), batch_size=8, compile=False)
    with pytest.raises(ConfigError, match="is not a Callback"):
        agent.learn(8, callbacks=[print], progress=False)
    with pytest.raises(ConfigError, match=r"num_episodes=1\.5"):
        agent.evaluate(1.5)
