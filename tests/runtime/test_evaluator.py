"""Evaluation: whole episodes, fairly shared, reproducible, and nobody else's random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training.algorithms import PPOAlgorithm, PPOConfig
from rl_training.config.sections import EvaluationConfig
from rl_training.core import Policy, Transition, tree_map
from rl_training.envs import EnvConfig, VectorEnv, make_env
from rl_training.runtime import EvalResult, NativeCollector, evaluate
from rl_training.runtime.evaluator import wilson_interval
from tests.envs.counting import CountingEnv
from tests.envs.fakes import FixedPolicy, build
from tests.gpu import needs_gpu


def cartpole_policy(env: VectorEnv) -> Policy:
    torch.manual_seed(3)
    return PPOAlgorithm(PPOConfig(), env.spec).policy


@pytest.mark.parametrize("backend", ["local", "strict", "sync-NextStep"])
@pytest.mark.parametrize("num_envs", [1, 2, 3])
@pytest.mark.parametrize("num_episodes", [1, 2, 5, 7])
def test_exactly_the_episodes_asked_for(backend: str, num_envs: int, num_episodes: int) -> None:
    result = evaluate(FixedPolicy(), build(CountingEnv, backend, num_envs), num_episodes, seed=0)
    # Every environment gives its first episodes: of 3, 5, 3 ... steps, with returns 6, 15, 6 ...
    quotas = [num_episodes // num_envs + (env < num_episodes % num_envs) for env in range(num_envs)]
    expected = sorted(3 if k % 2 == 0 else 5 for quota in quotas for k in range(quota))
    assert sorted(result.lengths) == expected
    assert sorted(result.returns) == [6.0 if length == 3 else 15.0 for length in expected]


class Sprinter(gym.Env):
    """The first copy's episodes last one step, the others' forty; the reward is a constant of the copy."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    built = 0

    def __init__(self) -> None:
        self.length = 1 if Sprinter.built == 0 else 40
        Sprinter.built += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 1
        return np.zeros(1, np.float32), 1.0, self.count >= self.length, False, {}


def test_short_episodes_are_not_favoured() -> None:
    Sprinter.built = 0
    result = evaluate(FixedPolicy(), build(Sprinter, "local", 2), 6, seed=0)
    assert sorted(result.lengths) == [1, 1, 1, 40, 40, 40]


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("backend", ["gymnasium", "native"])
def test_a_seed_fixes_the_result(backend: Any, deterministic: bool) -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=3, backend=backend))
    policy = cartpole_policy(env)
    results = [evaluate(policy, env, 6, seed=seed, deterministic=deterministic) for seed in (4, 4, 5)]
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_exploration_changes_the_result() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=3))
    policy = cartpole_policy(env)
    assert evaluate(policy, env, 6, seed=4) != evaluate(policy, env, 6, seed=4, deterministic=False)


@pytest.mark.parametrize("backend", ["gymnasium", "native"])
def test_the_random_numbers_of_training_are_left_alone(backend: Any) -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=2, backend=backend))
    policy = cartpole_policy(env)
    torch.manual_seed(9)
    np.random.seed(9)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # pyrefly: ignore
    evaluate(policy, env, 4, seed=1, deterministic=False)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # pyrefly: ignore


def test_who_watches_sees_all_steps_in_order() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=3))
    policy = cartpole_policy(env)
    seen: list[Transition] = []
    result = evaluate(policy, env, 30, seed=4, watch=seen.append)
    assert result == evaluate(policy, env, 30, seed=4)
    assert result.health == {}
    assert len(seen) > 1
    steps = tree_map(lambda *parts: torch.cat(parts), *seen)
    going = ~(steps.terminated | steps.truncated)[:-1]
    assert torch.equal(steps.obs[1:][going], steps.next_obs[:-1][going])
    assert (~going).sum(0).min() >= 10  # the episodes are in there, and steps beyond
    lengths = [int(torch.nonzero(steps.terminated[:, column])[0]) + 1 for column in range(3)]
    assert set(lengths) <= set(result.lengths)


def test_the_parameters_get_no_gradients() -> None:
    env = make_env(EnvConfig(id="CartPole-v1"))
    policy = cartpole_policy(env)
    evaluate(policy, env, 1, seed=1)
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_an_environment_that_never_ends_is_told_to_have_a_limit(told: Callable[[], str]) -> None:
    env = build(lambda: CountingEnv(terminate_after=10**9, truncate_after=10**9), "local", 2)
    advice = "cut episodes with env.max_episode_steps, or raise evaluation.max_steps"
    sentence = f"an episode of environment 0 has taken 250 steps without an end, and 0 of 3 episodes are done: {advice}"
    with pytest.raises(ValueError, match=sentence):
        evaluate(FixedPolicy(), env, 3, seed=0, max_steps=200)
    assert told() == (
        "an evaluation has taken 50 steps and no end of its first episode; it gives up after 200: " + advice + "\n"
    )


def test_many_short_episodes_may_take_longer_than_one_is_allowed() -> None:
    env = build(lambda: CountingEnv(terminate_after=40, truncate_after=40), "local", 1)
    assert evaluate(FixedPolicy(), env, 6, seed=0, max_steps=100).lengths == (40,) * 6


def test_a_result_unpacks_as_mean_and_std() -> None:
    result = EvalResult((1.0, 2.0, 6.0), (10, 20, 60))
    mean, std = result
    assert mean == result.mean == 3.0
    assert std == result.std == pytest.approx(np.std([1.0, 2.0, 6.0]))
    assert result.mean_length == 30.0


@pytest.mark.parametrize(
    ("successes", "num", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_the_interval_of_a_rate_is_wilsons(successes: int, num: int, low: float, high: float) -> None:
    # 81 of 263 is the example of Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I.
    assert wilson_interval(successes / num, num) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("n_envs", [None, 7])
def test_native_environments_run_one_per_episode_unless_told_otherwise(n_envs: int | None) -> None:
    settings = EvaluationConfig(n_envs=n_envs)
    assert settings.num_envs(64, at_once=True) == (n_envs or 64)
    assert settings.num_envs(64, at_once=False) == (n_envs or 5)
    assert settings.num_envs(3, at_once=False) == 3


@needs_gpu
@pytest.mark.parametrize("deterministic", [True, False])
def test_a_recorded_evaluation_equals_a_stepwise_one(deterministic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=16, backend="native"), device="cuda")
    policy = cartpole_policy(env).to("cuda")
    recorded = evaluate(policy, env, 40, seed=4, deterministic=deterministic)
    monkeypatch.setattr(NativeCollector, "recorded_block", NativeCollector.block)
    assert evaluate(policy, env, 40, seed=4, deterministic=deterministic) == recorded


def test_a_share_of_the_actions_is_random_and_the_others_are_the_policys() -> None:
    acted, again = [], []
    for actions in (acted, again):
        env = build(CountingEnv, "local", 4)
        evaluate(FixedPolicy(), env, 400, seed=0, epsilon=0.5, watch=lambda steps: actions.append(steps.action))  # noqa: B023
    assert 0.2 < torch.cat(acted).float().mean().item() < 0.3  # action 1: half of the random ones
    assert torch.equal(torch.cat(acted), torch.cat(again))
