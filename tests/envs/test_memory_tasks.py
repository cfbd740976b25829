"""The memory tasks: what is hidden, what it is worth to remember it, and the bound without memory."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from rl_training.core import tree_leaves
from rl_training.envs import NATIVE, EnvConfig, NativeDynamics, NativeEnv, check, make_env
from rl_training.envs.check import sample
from rl_training.envs.classic import CartPole, Pendulum
from rl_training.envs.memory_tasks import CartPoleNoVelocity, PendulumNoVelocity, RepeatPrevious, TMaze

IDS = ["CartPoleNoVel-v1", "PendulumNoVel-v1", "TMaze-v0", "RepeatPrevious-v0"]
FORWARD, LEFT, RIGHT = 0, 1, 2


def both_cues(maze: TMaze) -> Tensor:
    state = maze.initial(torch.tensor([[0.2], [0.7]]))
    assert maze.observe(state)[:, 0].tolist() == [-1.0, 1.0]
    return state


def returns(maze: TMaze, choose) -> list[float]:
    """The return for either cue when `choose(observation, memory)` gives the action and the next memory."""
    found = []
    for state in both_cues(maze).split(1):
        total, memory = 0.0, None
        for _ in range(maze.max_episode_steps):
            action, memory = choose(tuple(maze.observe(state)[0].tolist()), memory)
            state, reward, terminated = maze.step(state, torch.tensor([action]))
            total += reward.item()
            if terminated:
                break
        found.append(total)
    return found


@pytest.mark.parametrize("length", [1, 3, 8])
def test_without_memory_half_of_the_mazes_are_solved_at_best(length: int) -> None:
    maze = TMaze(length)
    observable = [(-1.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)]
    means = []
    for actions in product(range(3), repeat=len(observable)):
        table = dict(zip(observable, actions, strict=True))
        means.append(sum(returns(maze, lambda obs, memory, table=table: (table[obs], memory))) / 2)
    assert len(means) == 81
    assert max(means) == 0.5
    assert set(means) == {0.0, 0.5}


@pytest.mark.parametrize("length", [1, 3, 8])
def test_with_memory_every_maze_is_solved(length: int) -> None:
    def remember(obs: tuple[float, ...], cue: float | None) -> tuple[int, float | None]:
        cue = obs[0] or cue
        return (FORWARD if obs[2] else LEFT if cue == -1.0 else RIGHT), cue

    assert returns(TMaze(length), remember) == [1.0, 1.0]


def test_the_cue_is_seen_at_the_start_and_nowhere_else() -> None:
    maze = TMaze(4)
    state = both_cues(maze)
    seen = [maze.observe(state)]
    for _ in range(6):
        state, reward, terminated = maze.step(state, torch.tensor([FORWARD, FORWARD]))
        seen.append(maze.observe(state))
        assert not reward.any()
        assert not terminated.any()
    observations = torch.stack(seen)
    assert observations[0, :, 0].tolist() == [-1.0, 1.0]
    assert not observations[1:, :, 0].any()
    assert torch.equal(observations[1:, 0], observations[1:, 1])  # the two mazes look the same from there on
    assert observations[:, 0, 1].tolist() == [0, 0, 0, 0, 1, 1, 1]  # the end, which going forward does not leave
    assert torch.equal(observations[..., 1] + observations[..., 2], torch.ones(7, 2))


def test_turning_in_the_corridor_only_costs_time() -> None:
    maze = TMaze(3)
    state = both_cues(maze)
    for action in (LEFT, RIGHT):
        after, reward, terminated = maze.step(state, torch.tensor([action, action]))
        assert torch.equal(after, state)
        assert not reward.any()
        assert not terminated.any()


def test_a_maze_ends_by_time_without_reward() -> None:
    env = NativeEnv(TMaze(3), 5)
    env.reset(seed=0)
    steps = [env.step(torch.full((5,), LEFT)) for _ in range(12)]
    assert [bool(step.truncated.all()) for step in steps] == [False] * 11 + [True]
    assert not any(step.terminated.any() or step.reward.any() for step in steps)


def test_both_cues_are_equally_frequent() -> None:
    env = NativeEnv(TMaze(), 20_000)
    cue = env.reset(seed=0)[:, 0]
    assert set(cue.tolist()) == {-1.0, 1.0}
    assert abs(cue.mean().item()) < 5 / 20_000**0.5


def answer_all(env: NativeEnv, choose) -> tuple[Tensor, Tensor]:
    """One episode of every row: its return, and when it terminated; `choose` gets all observations so far."""
    seen = [env.reset(seed=1)]
    total, ended = torch.zeros(env.num_envs), torch.zeros(env.num_envs, dtype=torch.long)
    for time in range(env.dynamics.delay + env.dynamics.num_answers):
        step = env.step(choose(torch.stack(seen)))
        seen.append(step.obs)
        total += step.reward
        ended += torch.where(step.terminated & (ended == 0), time + 1, 0)
        assert not step.truncated.any()
    return total, ended


@pytest.mark.parametrize(("delay", "num_answers"), [(4, 28), (1, 1), (2, 5)])
def test_a_perfect_memory_returns_one_and_the_last_answer_ends_it(delay: int, num_answers: int) -> None:
    def perfect(seen: Tensor) -> Tensor:
        return seen[max(len(seen) - 1 - delay, 0)].argmax(-1)

    env = NativeEnv(RepeatPrevious(delay, num_answers), 50)
    total, ended = answer_all(env, perfect)
    torch.testing.assert_close(total, torch.ones(50))
    assert set(ended.tolist()) == {delay + num_answers}


@pytest.mark.parametrize("kind", ["constant", "what is shown", "random"])
def test_without_memory_three_of_four_answers_are_wrong(kind: str) -> None:
    num = 20_000

    def memoryless(seen: Tensor) -> Tensor:
        if kind == "constant":
            return torch.full((num,), 2)
        return seen[-1].argmax(-1) if kind == "what is shown" else torch.randint(4, (num,))

    torch.manual_seed(0)
    total, _ = answer_all(NativeEnv(RepeatPrevious(), num), memoryless)
    deviation = (0.75 / 28) ** 0.5  # of one return: 28 answers of +-1/28, right with probability 1/4
    assert total.mean().item() == pytest.approx(-0.5, abs=5 * deviation / num**0.5)
    assert total.std().item() == pytest.approx(deviation, rel=0.05)


def test_nothing_is_at_stake_before_the_delay() -> None:
    env = NativeEnv(RepeatPrevious(delay=4), 10)
    obs = env.reset(seed=0)
    assert torch.equal(obs.sum(-1), torch.ones(10))  # one symbol is shown
    rewards = torch.stack([env.step(torch.zeros(10, dtype=torch.long)).reward for _ in range(6)])
    assert not rewards[:4].any()
    assert (rewards[4:].abs() == 1 / 28).all()


def test_all_symbols_are_equally_frequent() -> None:
    counts = NativeEnv(RepeatPrevious(), 40_000).reset(seed=0).mean(0)
    torch.testing.assert_close(counts, torch.full((4,), 0.25), rtol=0, atol=5 * (0.1875 / 40_000) ** 0.5)


@pytest.mark.parametrize(
    ("full", "hidden", "shown"),
    [(CartPole, CartPoleNoVelocity, [0, 2]), (Pendulum, PendulumNoVelocity, [0, 1])],
    ids=["cartpole", "pendulum"],
)
def test_velocities_are_hidden_and_nothing_else_changes(
    full: type[NativeDynamics], hidden: type[NativeDynamics], shown: list[int]
) -> None:
    envs = [NativeEnv(kind(), 16, max_episode_steps=60) for kind in (full, hidden)]
    generator = torch.Generator().manual_seed(0)
    pairs = [tuple(env.reset(seed=3) for env in envs)]
    ended = 0
    for _ in range(150):
        action = sample(envs[0].spec.action, 16, generator)
        theirs, ours = (env.step(action) for env in envs)
        for name in ("reward", "terminated", "truncated"):
            assert torch.equal(getattr(theirs, name), getattr(ours, name))
        assert torch.equal(envs[0].state, envs[1].state)
        pairs += [(theirs.obs, ours.obs), (theirs.next_obs, ours.next_obs)]
        ended += int((theirs.terminated | theirs.truncated).sum())
    for theirs, ours in pairs:
        assert torch.equal(ours[:, shown], theirs[:, shown])
        others = [column for column in range(ours.shape[1]) if column not in shown]
        assert not ours[:, others].any()
    assert ended > 16
    assert hidden.spec == full.spec
    assert hidden.max_episode_steps == full.max_episode_steps


@pytest.mark.parametrize("env_id", IDS)
def test_the_contract_is_kept(env_id: str) -> None:
    check(EnvConfig(id=env_id, n_envs=3, backend="native"), num_steps=300)


@pytest.mark.parametrize("env_id", IDS)
def test_a_saved_state_continues_exactly(env_id: str) -> None:
    config = EnvConfig(id=env_id, backend="native", n_envs=4)
    env, fresh = make_env(config), make_env(config)
    assert isinstance(env, NativeEnv)
    assert isinstance(env.dynamics, NATIVE[env_id])
    generator = torch.Generator().manual_seed(0)
    env.reset(seed=1)
    for _ in range(45):
        env.step(sample(env.spec.action, 4, generator))
    state = env.get_state()
    actions = [sample(env.spec.action, 4, generator) for _ in range(60)]
    expected = [env.step(action) for action in actions]
    assert fresh.set_state(state) is None
    for action, step in zip(actions, expected, strict=True):
        assert all(map(torch.equal, tree_leaves(fresh.step(action)), tree_leaves(step)))
