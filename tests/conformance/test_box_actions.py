"""Every method with Box actions, with every kind of observation, bound and option of its replay."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

import rl_training
from rl_training import Agent, Callback, ConfigError
from tests.conformance.cases import CASES, RELATED
from tests.conformance.probes import PictureReward

NAMES = [case.name for case in CASES if case.acts_in == "box"]
PACE = {"n_envs": 2, "learning_starts": 8, "train_freq": 4, "batch_size": 4, "buffer_size": 64, "gradient_steps": 3}
COMMON = {
    "seed": 0,
    "threads": 1,
    "compile": False,
    "learning_rate": 1e-3,
    "net_arch": (4, 4),
    "policy_delay": 1,
} | PACE
OWN = {
    "REDQ": {"n_critics": 3},
    "RLPD": {"offline_batch_ratio": 0.0},  # else it asks for data
    "BEAR": {"n_actions": 4, "vae_net_arch": (4,), "warmup_updates": 2, "ent_coef": "auto"},
    "BCQ": {"n_actions": 4, "vae_net_arch": (4,)},
    "TQC": {"n_quantiles": 4},
    "CrossQ": {"critic_net_arch": (4,), "renorm_warmup_steps": 2},
}
every_name = pytest.mark.parametrize("name", NAMES)


class Parts(gym.Env):
    """A Dict of an array and a choice; actions between bounds that are not symmetrical, and it minds them."""

    def __init__(self, shape: tuple[int, ...] = (2,)) -> None:
        spaces = {"array": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32), "choice": gym.spaces.Discrete(3)}
        self.observation_space = gym.spaces.Dict(spaces)
        self.action_space = gym.spaces.Box(-1.0, 3.0, shape, np.float32)

    def observe(self) -> dict:
        array = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        return {"array": array, "choice": int(self.np_random.integers(3))}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        assert self.action_space.contains(np.asarray(action, np.float32)), action
        self.count += 1
        return self.observe(), float(np.sum(action)), self.count == 7, self.count == 5, {}


def matrix_actions() -> gym.Env:
    return Parts((2, 2))


ROWS: dict[str, tuple[object, dict[str, object]]] = {
    "plain": ("Pendulum-v1", {}),
    "dict": (Parts, {}),
    "matrix of actions": (matrix_actions, {}),
    "pictures": (PictureReward, {}),
    "n_steps": ("Pendulum-v1", {"n_steps": 3}),
    "prioritized": ("Pendulum-v1", {"prioritized": True}),
    "normalize_observation": ("Pendulum-v1", {"normalize_observation": True}),
    "everything": (Parts, {"n_steps": 3, "prioritized": True, "normalize_observation": True, "max_grad_norm": 1.0}),
}


def make(name: str, env: object, **settings: object) -> Agent:
    return getattr(rl_training, name)(env, **COMMON | OWN.get(name, {}) | settings)


class Metrics(Callback):
    def __init__(self) -> None:
        self.seen: list[dict] = []

    def on_log(self, trainer, metrics) -> None:
        self.seen.append({name: value for name, value in metrics.items() if name.startswith("train/")})


def learned_always(name: str, row: str) -> bool:
    return name not in RELATED or row == "everything"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param(name, row, id=f"{row}-{name}", marks=[] if learned_always(name, row) else pytest.mark.slow)
        for row in ROWS
        for name in NAMES
    ],
)
def test_it_learns_a_few_updates(name: str, row: str) -> None:
    env, settings = ROWS[row]
    agent, metrics = make(name, env, **settings), Metrics()
    everything = partial(agent.algorithm.named_parameters, remove_duplicate=False)  # a policy may hold its critics
    before = {key: p.detach().clone() for key, p in everything()}
    agent.learn(24, progress=False, callbacks=metrics)
    assert agent.trainer.progress.gradient_steps == 5 * 3
    after = dict(everything())
    assert all(torch.isfinite(parameter).all() for parameter in after.values())
    still = {key for key in before if torch.equal(before[key], after[key])}
    parts = {key.split(".")[0] for key in before}
    for part in parts:  # in every one, nearly everything has moved; a silent unit may not
        keys = {key for key in before if key.startswith(part)}
        assert len(keys & still) <= len(keys) // 3, keys & still
    assert parts >= {"policy", "critics"}
    assert {"train/critic_loss", "train/actor_loss", "train/td_error"} <= metrics.seen[-1].keys()
    assert all(np.isfinite(value) for seen in metrics.seen for value in seen.values())
    agent.close()


@every_name
def test_predicted_actions_are_in_the_environments_units(name: str) -> None:
    agent = make(name, Parts)
    agent.learn(24, progress=False)
    gen = np.random.default_rng(0)
    obs = {"array": gen.uniform(-1, 1, (200, 2, 2)).astype(np.float32), "choice": gen.integers(3, size=200)}
    action, _ = agent.predict(obs)
    assert action.shape == (200, 2)
    assert np.array_equal(action, agent.predict(obs)[0])
    with torch.no_grad():
        inside = agent.algorithm.mode({key: torch.from_numpy(value) for key, value in obs.items()}).numpy()
    np.testing.assert_allclose(action, 1 + 2 * inside, atol=1e-5)  # the middle and half the range of [-1, 3]
    for _ in range(5):
        explored, _ = agent.predict(obs, deterministic=False)
        assert explored.min() >= -1
        assert explored.max() <= 3
        assert not np.array_equal(explored, action)
    agent.close()


@every_name
def test_other_actions_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} needs Box actions, but this environment has Discrete: use DQN"):
        make(name, "CartPole-v1")


class Real(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)


@every_name
def test_actions_without_bounds_are_refused_with_advice(name: str) -> None:
    sentence = rf"{name} acts between two bounds .* action 0 .* low=-inf and high=inf: give its Box both .*TransformAction.*or use PPO"
    with pytest.raises(ValueError, match=sentence):
        make(name, Real)


@every_name
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"train_freq": 3}, r"experience.train_freq=3 must be a multiple of env.n_envs=2"),
        ({"policy_delay": 0}, r"algorithm.policy_delay=0 must be at least 1"),
        ({"n_critics": 0}, r"algorithm.n_critics=0 must be at least 1"),
        ({"critic_dropout": 1.0}, r"algorithm.critic_dropout=1.0 must be at most 0.9"),
        ({"critic_net_arch": [8, 0]}, r"algorithm.critic_net_arch\[1\]=0 must be at least 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_out_of_range_are_refused(name: str, settings: dict, sentence: str) -> None:
    if name == "CrossQ" and "critic_dropout" in settings:
        sentence = r"algorithm.critic_dropout=1.0 has no effect in CrossQ, because .*: drop it"
    with pytest.raises(ConfigError, match=sentence):
        make(name, "Pendulum-v1", **settings)
