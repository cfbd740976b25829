"""`rl_training.envs.check` passes good environments and lists each breach of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec, Tree
from rl_training.envs import EnvConfig, EnvStep, VectorEnv, check
from rl_training.envs.memory_tasks import RepeatPrevious, TMaze
from tests.envs.fakes import ManualReset, NextStepOnly

GOOD = {
    "local": EnvConfig(id="CartPole-v1", n_envs=2),
    "async": EnvConfig(id="CartPole-v1", n_envs=2, vectorization="async"),
    "native": EnvConfig(id="CartPole-v1", n_envs=2, backend="native"),
    "native_factory": EnvConfig(id="rl_training.envs.memory_tasks:TMaze", n_envs=2, backend="native"),
    "vector_entry_point": EnvConfig(id="CartPole-v1", n_envs=3, vectorization="vector_entry_point"),
    "pendulum": EnvConfig(id="Pendulum-v1"),
    "half_cheetah": EnvConfig(id="HalfCheetah-v5", max_episode_steps=90),
    "lunar_lander": EnvConfig(id="LunarLander-v3"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_environments_pass(name: str) -> None:
    check(GOOD[name], num_steps=250)


def test_an_id_is_enough() -> None:
    check("CartPole-v1", num_steps=100)


def test_an_episode_of_a_thousand_steps_ends_within_the_default() -> None:
    check("MountainCarContinuous-v0", num_envs=1)


class Walk(gym.Env):
    """A good environment: a random walk that ends after 7 steps. Broken ones override one thing."""

    observation_space: gym.Space = gym.spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(2)
    closed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.count = 0
        self.place = self.np_random.normal(size=2)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self.count += 1
        self.place = self.place + self.np_random.normal(size=2) * (1 + action)
        return self.observe(), self.reward(), False, self.ended(), {}

    def observe(self) -> Any:
        return self.place.astype(np.float32)

    def reward(self) -> Any:
        return float(self.place[0])

    def ended(self) -> bool:
        return self.count >= 7

    def close(self) -> None:
        Walk.closed += 1


def test_functions_environments_and_vector_environments_are_taken() -> None:
    check(Walk, num_steps=50)
    check(lambda: Walk(), num_envs=3, num_steps=50)
    check(Walk(), num_steps=50)
    check(NextStepOnly(Walk, 2), num_steps=50)
    check(ManualReset(Walk, 2), num_steps=50)
    for mode in AutoresetMode:
        check(SyncVectorEnv([Walk] * 2, autoreset_mode=mode), num_steps=50)


class Drifting(TMaze):
    """Leaves the bounds of its own space."""

    def observe(self, state: Tensor) -> Tensor:
        return super().observe(state) + state[..., :1]


def test_functions_that_return_native_dynamics_are_taken() -> None:
    check(RepeatPrevious, num_steps=100)
    check(lambda: TMaze(length=3), num_envs=4, num_steps=100)
    with pytest.raises(ValueError, match="step: observation leaves its space's bounds"):
        check(Drifting, num_steps=100)


def test_only_what_was_built_is_closed() -> None:
    Walk.closed = 0
    check(Walk(), num_steps=20)
    assert Walk.closed == 0
    check(Walk, num_envs=3, num_steps=20)
    assert Walk.closed == 3


class WrongShape(Walk):
    def observe(self) -> Any:
        return np.zeros(3, np.float32)


class LateWrongShape(Walk):
    def observe(self) -> Any:
        return np.zeros(3 if self.count == 4 else 2, np.float32)


class NotFinite(Walk):
    def observe(self) -> Any:
        return np.array([np.nan, 0.0], np.float32) if self.count == 3 else super().observe()


class NotFiniteAtStart(Walk):
    def observe(self) -> Any:
        return np.array([np.inf, 0.0], np.float32) if self.count == 0 else super().observe()


class OutOfBounds(Walk):
    observation_space = gym.spaces.Box(np.full(2, -np.inf, np.float32), np.array([np.inf, 0.5], np.float32))


class WrongChoice(Walk):
    observation_space = gym.spaces.Dict({"room": gym.spaces.Discrete(3), "bits": gym.spaces.MultiBinary(2)})

    def observe(self) -> Any:
        return {"room": 3 if self.count == 5 else 0, "bits": np.array([0, 1])}


class WrongBit(WrongChoice):
    def observe(self) -> Any:
        return {"room": 0, "bits": np.array([0, 2 if self.count == 5 else 1])}


class NanReward(Walk):
    def reward(self) -> Any:
        return float("nan") if self.count == 5 else 1.0


class TwoRewards(Walk):
    def reward(self) -> Any:
        return np.zeros(2)


class Unseeded(Walk):
    def observe(self) -> Any:
        return np.random.default_rng().normal(size=2).astype(np.float32)


class Endless(Walk):
    def ended(self) -> bool:
        return False


class Remembers(Walk):
    """Seeded, but episodes depend on how many there were before: a re-run cannot bring that back."""

    episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        self.episodes = 0 if seed is not None else self.episodes + 1
        return super().reset(seed=seed)

    def observe(self) -> Any:
        return np.array([self.episodes, self.count], np.float32)


@pytest.mark.parametrize(
    ("factory", "breach"),
    [
        (WrongShape, r"observation of shape \(3,\).*says \(2,\)"),
        (LateWrongShape, r"observation of shape \(3,\).*says \(2,\)"),
        (NotFinite, "step: observation is not finite"),
        (NotFiniteAtStart, "reset: observation is not finite"),
        (OutOfBounds, "observation leaves its space's bounds"),
        (WrongChoice, r"returned the observation 3, but its observation space says Discrete\(num=3"),
        (WrongBit, r"returned the observation 2, but its observation space says MultiBinary\(num=2"),
        (NanReward, "step: the reward is not finite"),
        (TwoRewards, r"the reward array\(.*: `step` must return one number"),
        (Unseeded, "the same seed and actions gave different data: use only `self.np_random`"),
        (Endless, "no episode ended within 40 steps: raise num_steps"),
        (Remembers, "set_state: a re-run episode ended elsewhere"),
    ],
)
def test_each_breach_is_listed(factory: Callable[[], gym.Env], breach: str) -> None:
    with pytest.raises(ValueError, match=f"breaks the contract:\n(.*\n)*.*{breach}"):
        check(factory, num_steps=40)


def breaches(env: Any) -> list[str]:
    with pytest.raises(ValueError, match="breaks the contract") as caught:
        check(env, num_steps=40)
    return [line.removeprefix("  - ") for line in str(caught.value).splitlines()[1:]]


def test_a_fault_is_told_once_and_alone() -> None:
    assert breaches(NotFinite) == ["step: observation is not finite"]
    assert breaches(NanReward) == ["step: the reward is not finite"]
    assert len(breaches(Unseeded)) == 1


class TwoFaults(OutOfBounds):
    def reward(self) -> Any:
        return float("inf")


def test_every_breach_is_told_at_once() -> None:
    assert {line.split(": ", 1)[1].partition(" (it holds")[0] for line in breaches(TwoFaults)} == {
        "the reward is not finite",
        "observation leaves its space's bounds",
    }


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("CartPol-v1", "cannot be used:\n.*did you mean CartPole"),
        (lambda: None, "a factory must return a gymnasium.Env"),
    ],
)
def test_what_cannot_be_built_is_said(source: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check(source)


class SameStepWithoutFinal(NextStepOnly):
    """Restarts in the step that ends an episode, and gives the new episode's observation as the successor."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(actions)
        for index in np.flatnonzero(self.ended):
            obs[index], _ = self.envs[index].reset()
        self.ended = [False] * self.num_envs
        return obs, reward, terminated, truncated, info


class SameStepWithWrongFinal(SameStepWithoutFinal):
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, *rest, info = super().step(actions)
        return (obs, *rest, info | {"final_obs": obs})


class SameStepDeclaredNextStep(SameStepWithoutFinal):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}


class RewardedReset(NextStepOnly):
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        before = np.array(self.ended)
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward + 1.0 * before, terminated, truncated, info


class EndingReset(NextStepOnly):
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        before = np.array(self.ended)
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated | before, truncated, info


@pytest.mark.parametrize(
    ("vector", "breach"),
    [
        (SameStepWithoutFinal, "an episode ended without info['final_obs']"),
        (SameStepWithWrongFinal, "every successor at the end of an episode is the first observation of the next one"),
        (SameStepDeclaredNextStep, "a row that only reset carries a reward"),
        (RewardedReset, "a row that only reset carries a reward"),
        (EndingReset, "a row that only reset ends an episode"),
    ],
)
def test_breaches_of_vector_environments(vector: type[NextStepOnly], breach: str) -> None:
    assert any(breach in line for line in breaches(vector(Walk, 2)))


class Counter(VectorEnv):
    """A good implementation of the contract by hand. Broken ones override one thing."""

    num_envs = 2
    state_kind = "exact"
    spec: Spec = Spec(Box((1,), (0.0,), (9.0,)), Discrete(2))
    limit = 4

    def __init__(self) -> None:
        self.count = torch.zeros(2)

    def observe(self, count: Tensor) -> Tree:
        return count[:, None].clone()

    def reset(self, seed: int) -> Tree:
        self.count = torch.zeros(2)
        return self.observe(self.count)

    def step(self, action: Tensor) -> EnvStep:
        after = self.count + 1
        truncated = after >= self.limit
        self.count = torch.where(truncated, 0.0, after)
        false, true = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
        return EnvStep(after, false, truncated, self.observe(after), self.observe(self.count), true)

    def get_state(self) -> dict:
        return {"count": self.count}

    def set_state(self, state: dict) -> None:
        self.count = state["count"]


class ForgetsState(Counter):
    def set_state(self, state: dict) -> None:
        self.count = torch.zeros(2)


class SharesState(Counter):
    """Hands out the tensor that it goes on changing."""

    def step(self, action: Tensor) -> EnvStep:
        held = self.count
        step = super().step(action)
        self.count = held.copy_(self.count)
        return step


class Jumps(Counter):
    def step(self, action: Tensor) -> EnvStep:
        step = super().step(action)
        return step._replace(obs=torch.zeros(2, 1))


class WrongColumns(Counter):
    def step(self, action: Tensor) -> EnvStep:
        step = super().step(action)
        return step._replace(reward=step.reward[:, None])


class PhantomReset(Counter):
    def step(self, action: Tensor) -> EnvStep:
        step = super().step(action)
        return step._replace(valid=step.reward == 2, reward=torch.zeros(2))


class WrongWidth(Counter):
    spec = Spec(Box((3,), (0.0,) * 3, (9.0,) * 3), Discrete(2))


class WrongLeaf(Counter):
    spec = Spec(Dict({"count": Box((), (0.0,), (3.0,))}), Discrete(2))

    def observe(self, count: Tensor) -> Tree:
        return {"count": count.clone()}


def test_a_contract_written_by_hand_passes() -> None:
    check(Counter(), num_steps=40)


@pytest.mark.parametrize(
    ("env", "breach"),
    [
        (ForgetsState, "set_state: the environment promises 'exact' states but continued differently"),
        (SharesState, "set_state: the environment promises 'exact' states but continued differently"),
        (Jumps, "within an episode, the observation to act on is not the successor"),
        (WrongColumns, "step: reward has shape (2, 1), expected (2,)"),
        (PhantomReset, "a row is marked as a mere reset although no episode had ended"),
        (WrongWidth, "reset: observation has shape (2, 1), the space says (2, 3)"),
        (WrongLeaf, "step: observation['count'] leaves its space's bounds"),
    ],
)
def test_breaches_of_implementations(env: Callable[[], VectorEnv], breach: str) -> None:
    assert breach in "\n".join(breaches(env()))


def test_a_promise_of_nothing_is_kept() -> None:
    env = ForgetsState()
    env.state_kind = "boundary"
    check(env, num_steps=40)
