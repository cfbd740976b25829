"""Encoders and schedules that are given as classes and functions: what is recorded, and how they come back."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

import rl_training
from rl_training import DQN, PPO, SAC, Agent, ConfigError, RecurrentPPO
from rl_training.cli import main
from rl_training.config.code_objects import NOTED
from rl_training.config.trust import NAMED
from rl_training.core import Box, Dict
from rl_training.core.schedule import FUNCTIONS
from rl_training.experiment.checkpoint import difference
from rl_training.models.own_encoder import ENCODERS

OBS = [0.01, -0.02, 0.03, 0.04]
ON_POLICY = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "compile": False, "n_envs": 2}
RECURRENT = ON_POLICY | {"lstm_hidden_size": 8}
REPLAY = {"learning_starts": 8, "buffer_size": 64, "batch_size": 8, "train_freq": 2, "compile": False, "n_envs": 2}


class Net(nn.Module):
    """Remembers with how many dimensions it was called."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.layer, self.features_dim, self.dimensions = nn.Linear(space.size, 8), 8, set()

    def forward(self, obs: Tensor) -> Tensor:
        self.dimensions.add(obs.ndim)
        return self.layer(obs).tanh()


class Picture(nn.Module):
    """As users write it: convolutions for one leading dimension, and the rest beside them."""

    def __init__(self, space: Dict) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 4, 8, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 3 * 3, 8))
        self.features_dim = 8 + 2 + 4

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        assert obs["image"].dtype == torch.uint8
        image = self.image(obs["image"].permute(0, 3, 1, 2).float() / 255)
        return torch.cat([image, obs["position"], nn.functional.one_hot(obs["goal"], 4)], -1)


class Robot(gym.Env):
    """A dictionary with an image; three steps long."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (16, 16, 3), np.uint8),
            "position": gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "goal": gym.spaces.Discrete(4, start=1),
        }
    )

    def __init__(self, discrete: bool = True) -> None:
        self.action_space = gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.left = 3
        return self.observation_space.sample(), {}

    def step(self, action: object) -> tuple[dict, float, bool, bool, dict]:
        self.left -= 1
        return self.observation_space.sample(), 1.0, self.left == 0, False, {}


@pytest.mark.parametrize(
    ("kind", "settings", "env"),
    [(PPO, ON_POLICY, "CartPole-v1"), (RecurrentPPO, RECURRENT, "CartPole-v1"), (DQN, REPLAY, "CartPole-v1")],
)
def test_an_encoder_always_sees_one_leading_dimension(kind, settings, env) -> None:
    agent = kind(env, encoder=Net, **settings)
    agent.learn(64, progress=False)
    seen = [module.dimensions for module in agent.algorithm.modules() if isinstance(module, Net)]
    assert seen
    assert all(dimensions <= {2} for dimensions in seen)
    assert {2} in seen
    assert agent.config.algorithm.encoder == f"{__name__}:Net"


@pytest.mark.parametrize(
    ("kind", "settings"), [(PPO, ON_POLICY), (RecurrentPPO, RECURRENT), (SAC, REPLAY | {"kwargs": {"discrete": False}})]
)
def test_an_encoder_of_images_in_a_dictionary_trains_evaluates_and_loads(kind, settings, tmp_path) -> None:
    agent = kind(Robot, encoder=Picture, **settings)
    agent.learn(48, progress=False)
    assert agent.evaluate(2).lengths == (3, 3)
    agent.save(tmp_path / "model")
    obs = Robot.observation_space.sample()
    assert np.array_equal(rl_training.load(tmp_path / "model").predict(obs)[0], agent.predict(obs)[0])


def test_checkpoints_from_before_the_contract_still_load() -> None:
    agent, other = (PPO("CartPole-v1", encoder=Net, seed=seed, **ON_POLICY) for seed in (1, 2))
    old = {name.replace(".own.", "."): value for name, value in agent.algorithm.state_dict().items()}
    assert "policy.trunk.layer.weight" in old
    other.algorithm.load_state_dict(old)
    assert difference(dict(other.algorithm.state_dict()), dict(agent.algorithm.state_dict())) is None


def forget() -> None:
    """As in a process that has just begun."""
    for known in (ENCODERS, FUNCTIONS, NAMED, NOTED):
        known.clear()


def test_what_can_be_imported_needs_trust_and_no_more(tmp_path, told) -> None:
    forget()
    PPO("CartPole-v1", encoder=Net, learning_rate=fading, **ON_POLICY).save(tmp_path / "model")
    assert told() == ""
    forget()
    with pytest.raises(ConfigError, match=r"names code.*--trust tests"):
        rl_training.load(tmp_path / "model")
    assert rl_training.load(tmp_path / "model", trust=["tests"]).predict(OBS)[0] in (0, 1)


def fading(progress: float) -> float:
    return 3e-4 + (0.0 - 3e-4) * progress


def test_what_cannot_be_imported_is_noted_once_and_handed_over_again(tmp_path, told) -> None:
    class Local(Net):
        pass

    rate = lambda progress: 1e-3 * (1 - progress)  # noqa: E731
    forget()
    settings = {"encoder": Local, "learning_rate": rate, "total_timesteps": 96} | ON_POLICY
    whole, part = (PPO("CartPole-v1", **settings, run_dir=tmp_path / name) for name in ("whole", "part"))
    notes = told().splitlines()
    assert [note.partition(" cannot be imported")[0] for note in notes] == [
        f"algorithm.learning_rate={f'{__name__}:{rate.__qualname__}'!r}",
        f"algorithm.encoder={f'{__name__}:{Local.__qualname__}'!r}",
    ]
    whole.learn(progress=False)
    part.learn(progress=False, stop_at=40)
    part.save(tmp_path / "model")
    forget()
    with pytest.raises(ConfigError, match=r"handed over as an object.*load\(path, learning_rate=\.\.\.\)"):
        rl_training.load(tmp_path / "model", encoder=Local)
    loaded = rl_training.load(tmp_path / "model", encoder=Local, learning_rate=rate)
    assert np.array_equal(loaded.predict(OBS)[0], part.predict(OBS)[0])
    forget()
    with pytest.raises(ConfigError, match="handed over as an object"):
        Agent.resume(tmp_path / "part")
    resumed = Agent.resume(tmp_path / "part", encoder=Local, learning_rate=rate)
    resumed.learn(progress=False)
    states = [dict(agent.algorithm.state_dict()) for agent in (whole, resumed)]
    assert difference(*states) is None


def test_only_code_is_handed_over_again(tmp_path) -> None:
    PPO("CartPole-v1", **ON_POLICY).save(tmp_path / "model")
    for wrong in ({"encoder": "x:y"}, {"no_such_field": Net}):
        with pytest.raises(ValueError, match=next(iter(wrong))):  # a changed setting that is none
            rl_training.load(tmp_path / "model", **wrong)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (Net(Box((4,), (0.0,) * 4, (1.0,) * 4)), "is a finished Net: pass the class"),
        (5, "must be a class or a function"),
        ("os:system", "does not take an observation space"),
        ("builtins:exec", "'builtins:exec'"),
        ("math:pi", "is a float: name a class or a function"),
        ("torch.nn.Identity", "write it 'package.module:name'"),
        ("torch.nn:Identity", "set self.features_dim"),
    ],
)
def test_what_is_no_encoder_is_refused(encoder, message) -> None:
    with pytest.raises(ValueError, match=message):
        PPO("CartPole-v1", encoder=encoder)
    assert encoder not in NAMED  # what did not work was not wanted


def test_a_function_of_progress_gives_what_the_same_line_gives() -> None:
    states = []
    for rate in ("lin_3e-4", fading, {"function": f"{__name__}:fading"}):
        agent = PPO("CartPole-v1", seed=1, learning_rate=rate, total_timesteps=96, **ON_POLICY)
        agent.learn(progress=False)
        states.append(dict(agent.algorithm.state_dict()))
    assert difference(states[0], states[1]) is None
    assert difference(states[0], states[2]) is None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda p: p, r"algorithm\.learning_rate at progress 0.*must be above 0"),
        (lambda progress_remaining: 1e-3, "takes `progress_remaining`, as in Stable-Baselines3"),
        (lambda: 1e-3, "cannot be called with 0.0"),
        (lambda p: float("nan") if p == 1 else 1e-3, r"\(1\) returned nan"),
        (lambda p: -1.0 if p == 0.5 else 1e-3, "at progress 0.5.*must be at least 0"),
        (lambda p: torch.tensor(1e-3), "returned tensor"),
        (lambda p: True, "returned True"),
        ({"function": "math:pi"}, "cannot be called with"),
        ({"function": "no_such_package:x"}, "cannot be imported"),
    ],
)
def test_a_function_that_gives_no_usable_number_is_refused(function, message) -> None:
    with pytest.raises(ValueError, match=message):
        PPO("CartPole-v1", learning_rate=function)


@pytest.mark.parametrize(
    ("kind", "setting", "function", "message"),
    [
        (PPO, "learning_rate", lambda p: -1.0 if 0.2 < p < 0.4 else 1e-3, "must be at least 0"),
        (PPO, "clip_range", lambda p: -0.1 if 0.2 < p < 0.4 else 0.2, "must be at least 0"),
        (DQN, "per_beta", lambda p: 1.5 if 0.2 < p < 0.4 else 0.5, "must be at most 1"),
        (DQN, "learning_rate", lambda p: float("nan") if 0.2 < p < 0.4 else 1e-3, "must return a finite number"),
    ],
)
def test_a_function_that_leaves_its_range_on_the_way_ends_the_run(kind, setting, function, message) -> None:
    settings = ON_POLICY if kind is PPO else {"learning_starts": 8, "batch_size": 8, "prioritized": True}
    agent = kind("CartPole-v1", total_timesteps=96, **settings, **{setting: function})
    with pytest.raises(ValueError, match=rf"algorithm\.{setting} at progress 0\.[23].*{message}"):
        agent.learn(progress=False)


def test_other_scheduled_settings_take_functions_in_their_range() -> None:
    PPO("CartPole-v1", clip_range=lambda p: 0.2 - 0.1 * p, ent_coef=lambda p: 0.01 * p)
    with pytest.raises(ConfigError, match=r"per_beta at progress 1.*must be at most 1"):
        DQN("CartPole-v1", prioritized=True, per_beta=lambda p: 0.4 + p)


@pytest.mark.slow
def test_a_file_names_a_function_and_resumes_with_trust(tmp_path: Path, capsys) -> None:
    values = {
        "algorithm": {
            "name": "ppo",
            "n_steps": 16,
            "batch_size": 16,
            "learning_rate": {"function": f"{__name__}:fading"},
        },
        "env": {"id": "CartPole-v1"},
        "training": {"total_timesteps": 48, "compile": False},
    }
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(values))
    run = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "my.yaml"), "--run-dir", run, "--stop-at", "20", "--quiet"]) == 0
    assert f"resume {run} --trust tests" in capsys.readouterr().out
    forget()
    assert main(["resume", run, "--quiet"]) == 2
    assert main(["resume", run, "--quiet", "--verify", "--trust", "tests"]) == 0
    assert "verify: exact" in capsys.readouterr().out
    assert main(["config", "diff", run, str(tmp_path / "my.yaml")]) == 0
    assert "learning_rate" not in capsys.readouterr().out
