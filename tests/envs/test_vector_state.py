"""A saved state continues exactly, in a fresh environment object; where it cannot, that is said and not hidden."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training.core import tree_leaves
from rl_training.envs import EnvConfig, EnvStep, GymnasiumEnv, VectorEnv, make_env
from rl_training.envs.check import sample
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.local import LocalEnv
from rl_training.experiment.checkpoint import join_tensors, split_tensors
from tests.envs.fakes import NextStepOnly, build

LIMIT = 25  # so that episodes also end by time
IDS = (
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "Pendulum-v1",
    "Hopper-v5",
    "HalfCheetah-v5",
    "Ant-v5",  # many contacts
    "LunarLander-v3",
)


def run(env: VectorEnv, actions: list[torch.Tensor]) -> list[EnvStep]:
    return [env.step(action) for action in actions]


def equal(a: list[EnvStep], b: list[EnvStep]) -> bool:
    pairs = zip(a, b, strict=True)
    return all(torch.equal(x, y) for s, t in pairs for x, y in zip(tree_leaves(s), tree_leaves(t), strict=True))


def through_json(state: dict) -> dict:
    """What a checkpoint makes of a state: tensors apart, the rest as text."""
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(split_tensors(state, "", tensors, segments={}))
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    return join_tensors(json.loads(text), copies, {}.__getitem__)  # no rows of a replay


def check_continues(config: EnvConfig, cut: int, kind: str, num_after: int = 40) -> list[EnvStep]:
    """Saves after `cut` steps and compares what follows with what a fresh object gives from there."""
    env, fresh = make_env(config), make_env(config)
    try:
        generator = torch.Generator().manual_seed(4)
        actions = [sample(env.spec.action, env.num_envs, generator) for _ in range(cut + num_after)]
        env.reset(seed=11)
        before = run(env, actions[:cut])
        state = through_json(env.get_state())
        expected = run(env, actions[cut:])
        assert fresh.set_state(state) is None
        assert fresh.state_kind == env.state_kind == kind
        assert equal(run(fresh, actions[cut:]), expected)
        return before
    finally:
        env.close()
        fresh.close()


@pytest.mark.parametrize("env_id", IDS)
def test_in_the_middle_of_an_episode(env_id: str) -> None:
    before = check_continues(EnvConfig(id=env_id, n_envs=2, max_episode_steps=LIMIT), LIMIT + 12, "replayed")
    assert any((step.terminated | step.truncated).any() for step in before)


@pytest.mark.parametrize("env_id", IDS)
def test_right_after_an_episode_end(env_id: str) -> None:
    env = EnvConfig(id=env_id, n_envs=1, max_episode_steps=5)
    before = check_continues(env, 10, "replayed", num_after=12)
    assert before[-1].truncated.all()


@pytest.mark.parametrize("cut", [0, 5, 7])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Hopper-v5"])
def test_across_processes(env_id: str, cut: int) -> None:
    config = EnvConfig(id=env_id, n_envs=2, vectorization="async", max_episode_steps=5)
    check_continues(config, cut, "replayed", num_after=12)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_with_a_frame_stack_and_a_time_limit(vectorization: Any) -> None:
    config = EnvConfig(id="Pendulum-v1", n_envs=2, vectorization=vectorization, max_episode_steps=6, frame_stack=3)
    before = check_continues(config, 8, "replayed")
    assert before[0].next_obs.shape == (2, 3, 3)


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_gymnasiums_vectorised_cartpole_at_any_moment(cut: int) -> None:
    config = EnvConfig(id="CartPole-v1", n_envs=4, vectorization="vector_entry_point")
    check_continues(config, cut, "exact")


def test_vectorised_cartpole_right_before_it_resets_a_row() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=2, vectorization="vector_entry_point"))
    env.reset(seed=0)
    push = torch.ones(2, dtype=torch.int64)
    while not (step := env.step(push)).terminated.any():
        pass
    state = env.get_state()
    expected = run(env, [push] * 15)
    assert expected[0].valid.tolist() == (~step.terminated).tolist()
    assert env.set_state(state) is None  # the same object: the saved state must not have moved along with it
    assert equal(run(env, [push] * 15), expected)


def test_a_state_can_be_restored_twice() -> None:
    # The limit shows a step counter that went on counting inside the saved state.
    limited = {"max_episode_steps": 9}
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=3, vectorization="vector_entry_point", kwargs=limited))
    env.reset(seed=1)
    push = torch.zeros(3, dtype=torch.int64)
    run(env, [push] * 7)
    state = env.get_state()
    expected = run(env, [push] * 33)
    assert expected[1].truncated.all()
    for _ in range(2):
        assert env.set_state(state) is None
        assert equal(run(env, [push] * 33), expected)


class Noisy(gym.Env):
    """Draws from a generator of its own, which no seed reaches; may end at any time, and refuses steps after the end."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    chance = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.rng, self.over = np.random.default_rng(), False
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        return self.rng.uniform(-1, 1, 1).astype(np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert not self.over
        self.over = bool(self.rng.random() < self.chance)
        return self.observe(), 1.0, self.over, False, {}


class Restless(Noisy):
    """Looks the same all the time, but ends at random: only the early end of a re-run gives it away."""

    chance = 0.3

    def observe(self) -> np.ndarray:
        return np.zeros(1, np.float32)


@pytest.mark.parametrize("backend", ["local", "async"])
def test_an_unseeded_environment_starts_new_episodes_and_says_so(backend: str) -> None:
    env = build(Noisy, backend, 2)
    env.reset(seed=0)
    run(env, [torch.zeros(2, dtype=torch.int64)] * 5)
    assert env.state_kind == "replayed"
    fresh_obs = env.set_state(env.get_state())
    assert isinstance(fresh_obs, torch.Tensor)
    assert fresh_obs.shape == (2, 1)
    assert env.state_kind == "boundary"
    run(env, [torch.zeros(2, dtype=torch.int64)] * 3)
    env.close()


@pytest.mark.parametrize("backend", ["local", "async"])
def test_a_re_run_that_ends_early_is_noticed(backend: str) -> None:
    env = build(Restless, backend, 20)
    env.reset(seed=0)
    run(env, [torch.zeros(20, dtype=torch.int64)] * 12)  # some of the 20 open episodes are long by now
    state = env.get_state()
    assert max(len(episode["actions"]) for episode in state["episodes"]) > 1
    outcomes = [env.set_state(state) is not None for _ in range(10)]
    assert any(outcomes)
    assert env.state_kind == "boundary"
    env.close()


class Remembering(gym.Env):
    """Observes a random number drawn at reset, and how many episodes there were: lost by a re-run after the second."""

    observation_space = gym.spaces.Box(-99.0, 99.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episodes = 0 if seed is not None else self.episodes + 1
        self.drawn, self.count = self.np_random.random(), 0
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        return np.array([self.drawn, self.episodes], np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 1
        return self.observe(), 1.0, False, self.count == 2, {}


def first_obs(env: VectorEnv, seed: int) -> list[float]:
    """Where new episodes start after a state that could not be continued."""
    env.reset(seed)
    run(env, [torch.zeros(1, dtype=torch.int64)] * 5)
    obs = env.set_state(env.get_state())
    assert isinstance(obs, torch.Tensor)
    assert env.state_kind == "boundary"
    env.close()
    return obs[:, 0].tolist()


@pytest.mark.parametrize("backend", ["local", "async", "strict"])
def test_new_episodes_are_reproducible_and_not_those_of_another_run(backend: str) -> None:
    starts = [first_obs(build(Remembering, backend, 1), seed) for seed in (0, 0, 1)]
    assert starts[0] == starts[1] != starts[2]
    at_reset = build(Remembering, backend, 1).reset(0)
    assert isinstance(at_reset, torch.Tensor)
    assert starts[0] != at_reset[:, 0].tolist()  # nor the run's own first ones again


def test_an_unknown_vector_environment_promises_only_a_boundary() -> None:
    env = GymnasiumEnv(NextStepOnly(Remembering, 2))
    assert env.state_kind == "boundary"
    env.reset(seed=0)
    assert set(env.get_state()) == {"seed"}


class Doubling(gym.Env):
    """Doubles the action that it is given, in place."""

    observation_space = gym.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.zeros(2, np.float32)
        return self.position.copy(), {}

    def step(self, action):
        action *= 2
        self.position += action
        return self.position.copy(), 0.0, False, False, {}


def test_an_environment_may_change_the_action_it_is_given() -> None:
    env, fresh = (LocalEnv([lambda index: EpisodeLog(Doubling(), index)]) for _ in range(2))
    env.reset(seed=0)
    for _ in range(3):
        step = env.step(torch.full((1, 2), 0.25))
    assert fresh.set_state(env.get_state()) is None
    assert fresh.state_kind == "replayed"
    assert fresh.obs.tolist() == step.obs.tolist() == [[1.5, 1.5]]
