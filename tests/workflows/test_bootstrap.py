"""Oracle row 1 through the real pipeline: termination stops the bootstrap, truncation uses the final observation."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms import A2CAlgorithm, A2CConfig, PPOAlgorithm, PPOConfig
from rl_training.core import Box, Discrete, Spec, Transition
from rl_training.envs import NativeDynamics, NativeEnv, VectorEnv
from rl_training.experience import Rollout
from rl_training.runtime import make_collector
from tests.envs.fakes import BACKENDS, build

LIMIT, GAMMA, NUM_ENVS = 5, 0.9, 2
ActorCritic = PPOAlgorithm | A2CAlgorithm
TERMINATED_RETURNS = [4.0951, 3.439, 2.71, 1.9, 1.0]  # 1 + .9 + .81 + ... over the steps that are left


class OneState(gym.Env):
    """Gives 1 for every step in its only state; observes whether the step was the last, so final differs from first."""

    def __init__(self, *, terminates: bool = False) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.terminates, self.count = terminates, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 1
        last = self.count == LIMIT
        return np.full(1, last, np.float32), 1.0, last and self.terminates, False, {}


class OneStateDynamics(NativeDynamics):
    """The same as tensor code; the state is the number of steps."""

    num_random = 1
    spec = Spec(Box((1,), (0.0,), (1.0,)), Discrete(2))

    def __init__(self, *, terminates: bool) -> None:
        self.terminates = terminates
        self.max_episode_steps = 1000 if terminates else LIMIT

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.zeros_like(uniform)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state = state + 1
        return state, torch.ones_like(state[:, 0]), (state[:, 0] >= LIMIT) & self.terminates

    def observe(self, state: Tensor) -> Tensor:
        return (state >= LIMIT).float()


def limited(*, terminates: bool) -> gym.Env:
    env = OneState(terminates=terminates)
    return env if terminates else gym.wrappers.TimeLimit(env, LIMIT)


def build_env(backend: str, *, terminates: bool) -> VectorEnv:
    if backend == "native":
        return NativeEnv(OneStateDynamics(terminates=terminates), NUM_ENVS)
    return build(partial(limited, terminates=terminates), backend, NUM_ENVS)


def algorithm(
    name: str, spec: Spec, *, gae_lambda: float, value: float, final_value: float | None = None
) -> ActorCritic:
    """PPO or A2C whose value function gives `value`, and `final_value` for the final observation."""
    settings: dict[str, Any] = {"gamma": GAMMA, "gae_lambda": gae_lambda}
    built = PPOAlgorithm(PPOConfig(**settings), spec) if name == "ppo" else A2CAlgorithm(A2CConfig(**settings), spec)
    line = nn.Linear(1, 1)
    nn.init.constant_(line.bias, value)
    nn.init.constant_(line.weight, 0.0 if final_value is None else final_value - value)
    built.value_head = line
    return built


def prepare(backend: str, name: str, *, terminates: bool, **values: Any) -> tuple[Transition, dict[str, Tensor]]:
    """One rollout of a little more than two episodes; returns its rows and the columns that were computed of them."""
    env = build_env(backend, terminates=terminates)
    built = algorithm(name, env.spec, **values)
    collector = make_collector(env, built.policy, seed=3)
    rollout = Rollout(12, seed=0)
    for size in (4, 8):  # the cut is not at an episode's end
        rollout.add(collector.collect(built.policy, size))
    env.close()
    steps = rollout.steps()
    batch, _ = rollout.prepare(built)
    computed = {name: getattr(batch, name, None) for name in ("advantage", "target", "value")}
    return steps, {name: column.view(12, NUM_ENVS) for name, column in computed.items() if column is not None}


def valid_column(steps: Transition, column: Tensor) -> list[float]:
    """What the first environment's real steps have in a column."""
    return column[steps.valid[:, 0], 0].tolist()


@pytest.fixture(params=[*BACKENDS, "native"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_the_true_value_has_no_advantage_under_a_time_limit(backend: str, name: str) -> None:
    # 1 / (1 - .9) = 10 is the value of the one state, since its episodes are only cut, never over.
    steps, columns = prepare(backend, name, terminates=False, gae_lambda=0.8, value=10.0)
    assert steps.truncated.any()
    assert columns["advantage"][steps.valid].abs().max() < 1e-5
    assert valid_column(steps, columns["target"]) == pytest.approx([10.0] * int(steps.valid[:, 0].sum()))


def test_truncation_taken_for_termination_would_show() -> None:
    env = build_env("local", terminates=False)
    built = algorithm("ppo", env.spec, gae_lambda=0.8, value=10.0)
    steps = make_collector(env, built.policy, seed=3).collect(built.policy, 12)
    wrong, _ = built.prepare(steps._replace(terminated=steps.truncated))
    assert wrong.advantage[4, 0].item() == pytest.approx(1 - 10.0)


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_truncation_bootstraps_from_the_final_observation(backend: str, name: str) -> None:
    # Only the final observation is worth anything, so each target is the reward-to-go plus its discounted value.
    steps, columns = prepare(backend, name, terminates=False, gae_lambda=1.0, value=0.0, final_value=7.0)
    expected = [r + 7.0 * GAMMA ** (LIMIT - k) for k, r in enumerate(TERMINATED_RETURNS)]
    assert valid_column(steps, columns["target"])[:10] == pytest.approx(expected * 2)


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_termination_stops_the_bootstrap(backend: str, name: str) -> None:
    steps, columns = prepare(backend, name, terminates=True, gae_lambda=1.0, value=0.0, final_value=1e6)
    assert steps.terminated.any()
    assert not steps.truncated.any()
    assert valid_column(steps, columns["target"])[:10] == pytest.approx(TERMINATED_RETURNS * 2)
