"""The native environments equal gymnasium's, step by step."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.core import Discrete, tree_leaves
from rl_training.envs import NATIVE, EnvConfig, NativeEnv, make_env
from rl_training.envs.check import sample
from rl_training.envs.spaces import convert_spec

NUM_STATES = 400
# Wide enough to hit walls, wraps and velocity limits; the second row of each pair bounds the first.
RANGES = {
    "CartPole-v1": ([-2.6, -4.0, -0.3, -4.0], [2.6, 4.0, 0.3, 4.0]),
    "Acrobot-v1": ([-math.pi, -math.pi, -4 * math.pi, -9 * math.pi], [math.pi, math.pi, 4 * math.pi, 9 * math.pi]),
    "MountainCar-v0": ([-1.2, -0.07], [0.6, 0.07]),
    "MountainCarContinuous-v0": ([-1.2, -0.07], [0.6, 0.07]),
    "Pendulum-v1": ([-40.0, -8.0], [40.0, 8.0]),
}
EXTREME = {
    "CartPole-v1": [[2.39, 3.0, 0.0, 0.0], [0.0, 0.0, -0.2094, -3.0], [0.0, 0.0, 0.0, 0.0]],
    "Acrobot-v1": [
        [math.pi - 1e-3, -math.pi + 1e-3, 12.0, -28.0],
        [math.pi - 1e-3, 0.0, 0.0, 0.0],
        [-3.1, 3.1, -12.5, 28.2],
    ],
    "MountainCar-v0": [[-1.2, -0.07], [-1.15, -0.06], [0.49, 0.07], [0.6, 0.07], [0.499, 0.0]],
    "MountainCarContinuous-v0": [[-1.2, -0.07], [-1.15, -0.06], [0.449, 0.07], [0.6, 0.07]],
    "Pendulum-v1": [[math.pi - 1e-3, 8.0], [-math.pi + 1e-3, -8.0], [3 * math.pi + 0.1, 7.9], [0.0, 0.0]],
}
ANGLES = {"Acrobot-v1": [0, 1]}  # state columns that gymnasium keeps within one turn


@pytest.fixture(params=list(RANGES))  # those that gymnasium has too
def env_id(request: pytest.FixtureRequest) -> str:
    return request.param


def states_of(env_id: str) -> Tensor:
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in RANGES[env_id])
    uniform = torch.rand(NUM_STATES, len(low), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.cat([low + (high - low) * uniform, torch.tensor(EXTREME[env_id], dtype=torch.float64)])


def gymnasium_step(env: gym.Env, state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, bool]:
    bare = env.unwrapped
    env.reset(seed=0)
    bare.state = state.copy()
    bare.steps_beyond_terminated = None
    obs, reward, terminated, _, _ = bare.step(action)
    return np.array(bare.state, dtype=np.float64), obs, float(reward), terminated


def turns_apart(difference: Tensor, columns: list[int]) -> Tensor:
    difference[:, columns] = torch.remainder(difference[:, columns] + math.pi, 2 * math.pi) - math.pi
    return difference


def compare(env_id: str, dtype: torch.dtype, tolerance: float) -> None:
    dynamics = NATIVE[env_id]()
    states = states_of(env_id).to(dtype)
    actions = sample(dynamics.spec.action, len(states), torch.Generator().manual_seed(1))
    if not isinstance(dynamics.spec.action, Discrete):
        actions = actions * 1.5  # beyond the limits too, where gymnasium clips
    with gym.make(env_id, disable_env_checker=True) as env:
        pairs = zip(states.double().numpy(), actions.numpy(), strict=True)
        results = [gymnasium_step(env, state, action) for state, action in pairs]
    their_states, their_obs, their_rewards, their_ends = (np.array(column) for column in zip(*results, strict=True))
    next_state, reward, terminated = dynamics.step(states, actions)
    difference = turns_apart(next_state.double() - torch.from_numpy(their_states), ANGLES.get(env_id, []))
    assert difference.abs().max() < tolerance
    assert terminated.tolist() == their_ends.tolist()
    np.testing.assert_allclose(reward.double().numpy(), their_rewards, atol=tolerance, rtol=tolerance)
    # Gymnasium rounds observations to float32.
    np.testing.assert_allclose(dynamics.observe(next_state).numpy(), their_obs, atol=max(tolerance, 2e-6), rtol=1e-6)
    assert terminated.any() or env_id == "Pendulum-v1"
    assert not terminated.all()


def test_dynamics_equal_gymnasium(env_id: str) -> None:
    compare(env_id, torch.float64, 2e-6 if env_id == "Pendulum-v1" else 1e-7)


def test_dynamics_equal_gymnasium_in_float32(env_id: str) -> None:
    compare(env_id, torch.float32, 2e-4 if env_id == "Acrobot-v1" else 2e-5)


def test_a_whole_episode_equals_gymnasium(env_id: str) -> None:
    dynamics = NATIVE[env_id]()
    generator = torch.Generator().manual_seed(5)
    with gym.make(env_id, disable_env_checker=True) as env:
        env.reset(seed=0)
        state = torch.tensor(np.array([env.unwrapped.state]), dtype=torch.float64)
        for _ in range(60):
            action = sample(dynamics.spec.action, 1, generator)
            obs, reward, terminated, _, _ = env.step(action[0].numpy())
            state, our_reward, our_end = dynamics.step(state, action)
            np.testing.assert_allclose(dynamics.observe(state)[0].numpy(), obs, atol=1e-4)
            assert float(our_reward) == pytest.approx(float(reward), abs=1e-4)
            assert bool(our_end) == terminated
            if terminated:
                break


def test_spaces_and_time_limits_equal_gymnasium(env_id: str) -> None:
    dynamics = NATIVE[env_id]()
    with gym.make(env_id) as env:
        spec = convert_spec(env.observation_space, env.action_space)
    assert type(dynamics.spec.action) is type(spec.action)
    assert dynamics.max_episode_steps == gym.spec(env_id).max_episode_steps
    assert dynamics.spec.obs.shape == spec.obs.shape
    for ours, theirs in ((dynamics.spec.obs, spec.obs), (dynamics.spec.action, spec.action)):
        if isinstance(ours, Discrete):
            assert ours == theirs
        else:
            assert ours.low == pytest.approx(theirs.low)
            assert ours.high == pytest.approx(theirs.high)


FIRST_STATES = {
    "CartPole-v1": ([-0.05] * 4, [0.05] * 4),
    "Acrobot-v1": ([-0.1] * 4, [0.1] * 4),
    "MountainCar-v0": ([-0.6, 0.0], [-0.4, 0.0]),
    "MountainCarContinuous-v0": ([-0.6, 0.0], [-0.4, 0.0]),
    "Pendulum-v1": ([-math.pi, -1.0], [math.pi, 1.0]),
}


def test_first_states_fill_the_documented_range(env_id: str) -> None:
    env = NativeEnv(NATIVE[env_id](), 20_000)
    env.reset(seed=3)
    low, high = (torch.tensor(bound) for bound in FIRST_STATES[env_id])
    assert (env.state >= low).all()
    assert (env.state <= high).all()
    # A uniform distribution: mean and spread of 20,000 draws.
    width = high - low
    assert ((env.state.mean(0) - (low + high) / 2).abs() <= 0.01 * width).all()
    assert ((env.state.std(0) - width / math.sqrt(12)).abs() <= 0.01 * width).all()


def test_seeds_give_the_same_data_and_other_seeds_other_data(env_id: str) -> None:
    env = make_env(EnvConfig(id=env_id, backend="native", n_envs=3))
    first, again, other = (env.reset(seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_saved_state_continues_exactly(env_id: str) -> None:
    config = EnvConfig(id=env_id, backend="native", n_envs=4, max_episode_steps=30)
    env, fresh = make_env(config), make_env(config)
    generator = torch.Generator().manual_seed(0)
    env.reset(seed=1)
    for _ in range(45):
        env.step(sample(env.spec.action, 4, generator))
    state = env.get_state()
    actions = [sample(env.spec.action, 4, generator) for _ in range(40)]
    expected = [env.step(action) for action in actions]
    assert env.state_kind == "exact"
    assert fresh.set_state(state) is None
    for action, step in zip(actions, expected, strict=True):
        pairs = zip(tree_leaves(fresh.step(action)), tree_leaves(step), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def test_the_time_limit_truncates_and_restarts() -> None:
    env = make_env(EnvConfig(id="Pendulum-v1", backend="native", n_envs=2, max_episode_steps=4))
    env.reset(seed=0)
    steps = [env.step(torch.zeros(2, 1)) for _ in range(8)]
    assert [step.truncated.tolist() for step in steps] == [[k % 4 == 3] * 2 for k in range(8)]
    assert not torch.equal(steps[3].next_obs, steps[3].obs)
    assert torch.equal(steps[2].next_obs, steps[2].obs)
