"""The collector: exact statistics, unclipped stored actions, and a state that continues."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.algorithms import PPOAlgorithm, PPOConfig
from rl_training.core import Act, Column, Transition, Tree, tree_leaves
from rl_training.core.policy import Memory
from rl_training.envs import EnvConfig, VectorEnv, make_env
from rl_training.runtime import make_collector
from rl_training.runtime.collector import EnvCollector, Episode, LocalCollector
from rl_training.runtime.sent_pictures import SentPictures
from rl_training.runtime.transfer import Packed
from tests.envs.counting import CountingEnv
from tests.envs.fakes import FixedPolicy, build


def started(env: VectorEnv, seed: int = 0) -> tuple[LocalCollector, PPOAlgorithm]:
    torch.manual_seed(0)
    algorithm = PPOAlgorithm(PPOConfig(), env.spec)
    return make_collector(env, algorithm.policy, seed=seed), algorithm


def same(a: Transition, b: Transition) -> bool:
    return all(torch.equal(x, y) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


class Irrational(gym.Env):
    """Rewards whose sum depends, in the last bit, on the order of addition."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 1
        reward = self.np_random.normal() * 10.0 ** self.np_random.integers(-9, 10)
        return np.zeros(1, np.float32), reward, self.count == 300, False, {}


def episodes_in_chunks(chunk: int) -> list[Episode]:
    policy = FixedPolicy()
    collector = make_collector(build(Irrational, "local", 2), policy, seed=0)
    for start in range(0, 700, chunk):
        collector.collect(policy, min(chunk, 700 - start))
    return collector.pop_episodes()


def test_returns_are_the_same_to_the_last_bit_however_the_steps_are_cut() -> None:
    whole = episodes_in_chunks(700)
    assert [episode.length for episode in whole] == [300] * 4
    for chunk in (1, 7, 128, 299, 301):
        assert episodes_in_chunks(chunk) == whole


def test_returns_are_the_sums_of_the_rewards() -> None:
    policy = FixedPolicy()
    collector = make_collector(build(Irrational, "local", 1), policy, seed=0)
    steps = collector.collect(policy, 300)
    (episode,) = collector.pop_episodes()
    assert episode.ret == pytest.approx(float(steps.reward.double().sum()), rel=1e-9)
    assert (episode.timesteps, episode.env, episode.length) == (300, 0, 300)
    assert collector.pop_episodes() == []


def test_several_episodes_in_one_chunk_are_told_in_order() -> None:
    policy = FixedPolicy()
    collector = make_collector(build(CountingEnv, "local", 2), policy, seed=0)
    collector.collect(policy, 16)
    ends = [(3, 6.0, 3), (8, 15.0, 5), (11, 6.0, 3), (16, 15.0, 5)]
    assert collector.pop_episodes() == [Episode(2 * t, env, ret, n) for t, ret, n in ends for env in (0, 1)]


class Reach(gym.Env):
    """Keeps the actions that arrive."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Box(-0.25, 0.25, (2,), np.float32)
    taken: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.taken.append(np.array(action))
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_gaussian_actions_are_clipped_at_the_environment_and_stored_unclipped() -> None:
    Reach.taken = []
    collector, algorithm = started(build(Reach, "local", 1))
    steps = collector.collect(algorithm.policy, 50)
    stored, taken = steps.action[:, 0], torch.from_numpy(np.array(Reach.taken))
    assert stored.abs().max() > 0.5
    assert taken.abs().max() == 0.25
    assert torch.equal(taken, stored.clamp(-0.25, 0.25))
    # The probability is that of the action the policy chose, not of the clipped one.
    with torch.no_grad():
        log_prob = algorithm.policy.distribution(steps.obs).log_prob(steps.action)
    assert torch.allclose(log_prob, steps.log_prob)


def test_offset_choices_are_stored_from_zero() -> None:
    class Offset(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gym.spaces.Discrete(2, start=10)

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
            assert action in (10, 11)
            return super().step(action)

    collector, algorithm = started(build(Offset, "local", 2))
    assert set(collector.collect(algorithm.policy, 20).action.flatten().tolist()) == {0, 1}


@pytest.mark.parametrize(
    "config",
    [
        EnvConfig(id="CartPole-v1", n_envs=3),
        EnvConfig(id="CartPole-v1", n_envs=2, vectorization="async"),
        EnvConfig(id="CartPole-v1", n_envs=3, vectorization="vector_entry_point"),
        EnvConfig(id="CartPole-v1", n_envs=3, backend="native"),
        EnvConfig(id="Pendulum-v1", n_envs=2, max_episode_steps=20),
    ],
    ids=lambda config: f"{config.id}-{config.backend}-{config.vectorization}",
)
def test_a_saved_collector_continues_exactly(config: EnvConfig) -> None:
    collector, algorithm = started(make_env(config), seed=5)
    other, _ = started(make_env(config), seed=6)
    collector.collect(algorithm.policy, 33)
    collector.pop_episodes()
    state = collector.state_dict()
    results = []
    for continued in (collector, other):
        if continued is other:
            other.load_state_dict(state)
        torch.manual_seed(1)
        results.append((continued.collect(algorithm.policy, 60), continued.pop_episodes()))
        continued.env.close()
    assert same(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert results[0][1]


def test_a_collector_whose_environment_starts_anew_carries_nothing_over() -> None:
    policy = FixedPolicy()
    collector = make_collector(build(CountingEnv, "local", 1), policy, seed=0)
    collector.collect(policy, 10)  # in the third episode, which a re-run cannot number
    collector.pop_episodes()
    collector.load_state_dict(collector.state_dict())
    assert collector.env.state_kind == "boundary"
    assert collector.first.all()
    steps = collector.collect(policy, 3)
    assert steps.obs[:, 0].tolist() == [[0, 0], [0, 1], [0, 2]]
    assert collector.pop_episodes() == [Episode(13, 0, 6.0, 3)]


class Tally(FixedPolicy):
    """A recurrent policy: its memory counts the steps since it was told to start afresh."""

    def initial_memory(self, num: int) -> Memory:
        return (torch.zeros(num),)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        act = super().act(obs, memory, first, explore=explore)
        assert first is not None
        count = torch.where(first, 0.0, memory[0])
        return Act(act.action, count, (count + 1,))  # shown as the log-probability


@pytest.mark.parametrize("backend", ["local", "strict"])
def test_memory_starts_afresh_with_every_episode(backend: str) -> None:
    policy = Tally()
    collector = make_collector(build(CountingEnv, backend, 2), policy, seed=0)
    steps = collector.collect(policy, 30)
    assert isinstance(steps.obs, Tensor)
    assert torch.equal(steps.log_prob[steps.valid], steps.obs[steps.valid][:, 1])


def test_without_exploration_the_policy_takes_its_mode() -> None:
    _, algorithm = started(env := build(Reach, "local", 1))
    collector = EnvCollector(env, algorithm.policy, seed=0, explore=False)
    steps = collector.collect(algorithm.policy, 3)
    with torch.no_grad():
        assert torch.equal(steps.action, algorithm.policy.distribution(steps.obs).mode())


class Keyed(gym.Env):
    """Observations of several types, one of which says what is allowed."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (36, 36, 1), np.uint8),
            "x": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
            "choice": gym.spaces.Discrete(9),
            "action_mask": gym.spaces.MultiBinary(2),
        }
    )
    action_space = gym.spaces.Discrete(2)

    def observe(self) -> dict[str, Any]:
        draw = self.np_random
        mask = np.roll(np.array([1, 0], np.int8), self.count)
        image, x = draw.integers(0, 256, (36, 36, 1)).astype(np.uint8), draw.random(2).astype(np.float32)
        return {"image": image, "x": x, "choice": int(draw.integers(9)), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict]:
        assert action == self.count % 2
        self.count += 1
        return self.observe(), self.np_random.normal(), self.count == 4, self.count == 3, {}


@pytest.mark.parametrize(
    ("factory", "backend"), [(Keyed, "local"), (Keyed, "sync-SameStep"), (Irrational, "local"), (CountingEnv, "strict")]
)
@pytest.mark.parametrize("chunk", [1, 7])
def test_steps_that_are_sent_in_one_copy_are_the_same(factory: type[gym.Env], backend: str, chunk: int) -> None:
    results = []
    for packed in (False, True):
        collector, algorithm = started(build(factory, backend, 3))
        if packed:  # as to another device, to the one it is on
            collector.send_seen, collector.send_steps, *pictures = (Packed(collector.device) for _ in range(4))
            collector.pictures = SentPictures(collector.spec.obs, *pictures) if factory is Keyed else None
        torch.manual_seed(3)
        parts = [collector.collect(algorithm.policy, chunk) for _ in range(28 // chunk)]
        results.append((parts, collector.pop_episodes(), collector.state_dict()))
    (plain, episodes, state), (sent, same_episodes, same_state) = results
    assert all(same(a, b) for a, b in zip(plain, sent, strict=True))
    assert episodes == same_episodes
    assert torch.equal(state["first"], same_state["first"])


def test_memory_and_where_it_starts_are_sent_with_the_steps() -> None:
    policy, results = Tally(), []
    columns = [Column("first", dtype=torch.bool, source="policy"), Column("memory0", source="policy")]
    for packed in (False, True):
        collector = make_collector(build(CountingEnv, "local", 2), policy, seed=0, columns=columns)
        if packed:
            collector.send_seen, collector.send_steps = Packed(collector.device), Packed(collector.device)
        results.append(collector.collect(policy, 20))
    assert results[0].columns.keys() == {"first", "memory0"}
    assert same(*results)


def test_only_declared_columns_are_kept_and_unknown_ones_refused() -> None:
    policy, env = Tally(), build(CountingEnv, "local", 2)
    assert make_collector(env, policy, seed=0).collect(policy, 3).columns == {}
    with pytest.raises(ValueError, match=r"'version' .* its policy does not give: it gives log_prob, first, memory0"):
        make_collector(env, policy, seed=0, columns=[Column("version", source="policy")])


def test_the_host_keeps_what_was_born_there() -> None:
    collector, algorithm = started(build(CountingEnv, "local", 2))
    assert collector.collect(algorithm.policy, 5) is collector.latest
    collector.send_steps = Packed(collector.device)
    steps = collector.collect(algorithm.policy, 5)
    assert steps is not collector.latest
    assert same(steps, collector.latest)


class Replayed:
    """In the place of a CUDA graph: calls the function, and counts."""

    calls = 0

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        Replayed.calls += 1
        return self.function(*arguments)


def test_blocks_of_a_native_environment_by_a_recording_equal_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_training.runtime.native_collector.CudaGraph", Replayed)
    parts = []
    for recorded in (False, True):
        env = make_env(EnvConfig(id="CartPole-v1", n_envs=3, backend="native"))
        torch.manual_seed(2)
        policy = PPOAlgorithm(PPOConfig(), env.spec).policy
        collector = make_collector(env, policy, seed=5)
        collector.records, collector.block_size = recorded, 8 if recorded else 1  # as on a GPU
        parts.append([collector.collect(policy, num) for num in (19, 8, 3)])
    assert Replayed.calls == 2 + 1
    for plain, whole in zip(*parts, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tree_leaves(plain), tree_leaves(whole), strict=True))


@pytest.mark.compiled
def test_acting_is_compiled_without_the_environments() -> None:
    """An emulator cannot be pickled, which the compiler would do with all that a compiled method belongs to."""
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=2))
    env.emulator = threading.Lock()  # pyrefly: ignore (no attribute of environments)
    policy = PPOAlgorithm(PPOConfig(), env.spec).policy
    plain, compiled = (EnvCollector(env, policy, seed=0, explore=False, mode=mode) for mode in (False, True))
    wanted = plain.act(policy, plain.obs, (), plain.first)
    assert torch.equal(compiled.collect(policy, 1).action[0], wanted.action)
    assert not compiled.run_act.failed  # pyrefly: ignore (of a compiled function)
