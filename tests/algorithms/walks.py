"""Random walks whose episodes end in both ways, and what RecurrentPPO collects in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.algorithms import RecurrentPPOAlgorithm, RecurrentPPOConfig
from rl_training.algorithms.on_policy import NetArch
from rl_training.core import Box, Pass, RolloutBatch, Spec, Transition
from rl_training.envs import NATIVE, NativeEnv, VectorEnv
from rl_training.experience import Rollout
from rl_training.runtime import make_collector
from tests.envs.counting import CountingDynamics
from tests.envs.fakes import build


class Walk(gym.Env):
    """A random walk; episodes of random length terminate or are truncated, and some actions are forbidden."""

    observation_space: gym.Space = gym.spaces.Box(-100.0, 100.0, (3,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 12))
        self.place = self.np_random.normal(size=3)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.left -= 1
        self.place = self.place + self.np_random.normal(size=3)
        terminates = bool(self.np_random.random() < 0.5)
        return (
            self.observe(),
            float(self.place[0]),
            self.left == 0 and terminates,
            self.left == 0 and not terminates,
            {},
        )

    def observe(self) -> Any:
        return self.place.astype(np.float32)


class MaskedWalk(Walk):
    """The walk with a choice beside the place, and a mask that changes at every step."""

    observation_space = gym.spaces.Dict(
        {
            "place": gym.spaces.Box(-100.0, 100.0, (3,), np.float32),
            "room": gym.spaces.Discrete(4),
            "action_mask": gym.spaces.MultiBinary(3),
        }
    )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.mask[action], "a forbidden action was taken"
        return super().step(action)

    def observe(self) -> dict[str, Any]:
        self.mask = np.ones(3, np.int8)
        self.mask[self.np_random.integers(3)] = 0
        return {"place": super().observe(), "room": np.int64(self.np_random.integers(4)), "action_mask": self.mask}


class ContinuousWalk(Walk):
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


NUM_ENVS = 4
ENVS = {
    "walk": lambda: build(Walk, "local", NUM_ENVS),
    "masked": lambda: build(MaskedWalk, "local", NUM_ENVS),
    "continuous": lambda: build(ContinuousWalk, "local", NUM_ENVS),
    "rows that only reset": lambda: build(Walk, "strict", NUM_ENVS),
    "native": lambda: NativeEnv(NATIVE["CartPoleNoVel-v1"](), NUM_ENVS, max_episode_steps=11),
    "native counting": lambda: NativeEnv(CountingDynamics(5, 9), NUM_ENVS),
}
CORES = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "lstm of two layers": {"n_lstm_layers": 2},
    "gru of two layers": {"cell": "gru", "n_lstm_layers": 2},
    "shared lstm": {"shared_lstm": True},
    "shared gru of two layers": {"cell": "gru", "n_lstm_layers": 2, "shared_lstm": True},
}

every_core = pytest.mark.parametrize("core", CORES.values(), ids=CORES)
every_env = pytest.mark.parametrize("name", ENVS)


def make(spec: Spec, **settings: object) -> RecurrentPPOAlgorithm:
    """An algorithm whose actions and values depend on its memory from the first step on."""
    torch.manual_seed(0)
    small = {"net_arch": NetArch((8,), (8,)), "lstm_hidden_size": 12, "batch_size": 40}
    algorithm = RecurrentPPOAlgorithm(RecurrentPPOConfig(**small | {"ortho_init": False} | settings), spec)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.mul_(3)
        if isinstance(spec.action, Box):
            algorithm.policy.head.log_std.fill_(-0.5)
    return algorithm


class Collected(NamedTuple):
    """Two rollouts that follow each other, the second beginning within episodes."""

    algorithm: RecurrentPPOAlgorithm
    rollouts: list[Transition]


def collect(env: VectorEnv, num_rollouts: int = 2, **settings: object) -> Collected:
    algorithm = make(env.spec, **settings)
    collector = make_collector(env, algorithm.policy, seed=5, columns=algorithm.columns)
    torch.manual_seed(1)
    return Collected(algorithm, [collector.collect(algorithm.policy, 40) for _ in range(num_rollouts)])


def prepared(algorithm: RecurrentPPOAlgorithm, rollout: Transition) -> tuple[Rollout, RolloutBatch]:
    experience = Rollout(rollout.reward.shape[0], seed=0)
    experience.add(rollout)
    storage, _ = experience.prepare(algorithm)
    return experience, storage


def batches(
    algorithm: RecurrentPPOAlgorithm, rollout: Transition, size: int | None = 40
) -> list[tuple[Tensor, RolloutBatch]]:
    experience, storage = prepared(algorithm, rollout)
    (epoch,) = experience.draws(Pass(1, size, sequences=True))
    return [(index, experience.gather(storage, index)) for index in epoch]


def has_ends_of_both_kinds(rollout: Transition) -> bool:
    terminated, truncated = int(rollout.terminated.sum()), int(rollout.truncated.sum())
    return min(terminated, truncated) > 0 and terminated + truncated > 8
