"""`predict` for recurrent policies: state in, state out, and `episode_start` where an episode begins."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import PPO, Agent, ConfigError, RecurrentPPO
from rl_training.envs.vector import seeds_for
from tests.api.test_agent_predict import DictEnv

CORES = {
    "lstm": {},
    "gru of two layers": {"cell": "gru", "n_lstm_layers": 2},
    "shared": {"shared_lstm": True},
}
OBS = np.array([0.01, -0.02, 0.03, 0.04])


def make(env: object = "CartPole-v1", **settings: object) -> Agent:
    """An agent whose actions depend on its memory."""
    small = {"n_steps": 16, "batch_size": 16, "n_envs": 2, "seed": 1, "lstm_hidden_size": 12, "ortho_init": False}
    agent = RecurrentPPO(env, **small | settings)
    with torch.no_grad():
        for parameter in agent.algorithm.parameters():
            parameter.mul_(4)
    return agent


def walk(num: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num, 4)) * 0.3


def shapes(agent: Agent, num: int) -> list[tuple[int, ...]]:
    return [tuple(part.shape) for part in agent.algorithm.policy.initial_memory(num)]


@pytest.mark.parametrize("settings", CORES.values(), ids=CORES)
def test_stepping_episodes_with_predict_gives_the_returns_of_evaluate(settings: dict) -> None:
    agent = make(evaluation={"n_envs": 1}, normalize_observation=True, **settings)
    agent.learn(64, progress=False)
    expected = agent.evaluate(4, seed=7)
    env = gym.make("CartPole-v1")
    (first_seed,) = seeds_for(7, 1)
    returns, state = [], None
    for episode in range(4):
        obs, _ = env.reset(seed=first_seed if episode == 0 else None)
        start, total, ended = True, 0.0, False
        while not ended:
            action, state = agent.predict(obs, state, start)
            obs, reward, terminated, truncated, _ = env.step(action)
            start, total, ended = False, total + float(reward), terminated or truncated
        returns.append(total)
    assert tuple(returns) == expected.returns
    assert len(set(returns)) > 1


@pytest.mark.parametrize("settings", CORES.values(), ids=CORES)
def test_predict_gives_the_states_of_the_policy(settings: dict) -> None:
    agent = make(**settings)
    policy = agent.algorithm.policy
    memory, state = policy.initial_memory(1), None
    for obs in walk(6):
        _, state = agent.predict(obs, state)
        memory = policy.act(torch.tensor(obs[None], dtype=torch.float32), memory).memory
        assert isinstance(state, tuple)
        assert [part.shape for part in state] == shapes(agent, 1)
        for ours, theirs in zip(state, memory, strict=True):
            assert isinstance(ours, np.ndarray)
            np.testing.assert_array_equal(ours, theirs.detach().numpy())


def test_memory_changes_what_is_predicted() -> None:
    agent = make()
    observations = walk(40)
    state, with_memory = None, []
    for obs in observations:
        action, state = agent.predict(obs, state)
        with_memory.append(int(action))
    without = [int(agent.predict(obs)[0]) for obs in observations]
    assert with_memory[0] == without[0]
    assert with_memory != without


def test_without_a_state_an_episode_begins() -> None:
    agent = make()
    _, used = agent.predict(OBS, agent.predict(walk(1)[0])[1])
    fresh_action, fresh = agent.predict(OBS)
    for state, start in ((None, True), (None, False), (None, np.array([True])), (used, True), (used, np.array([True]))):
        action, after = agent.predict(OBS, state, start)
        assert action == fresh_action
        for ours, theirs in zip(after, fresh, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for start in (None, False, np.array([False])):  # a state without a start goes on
        _, after = agent.predict(OBS, used, start)
        assert not any(np.array_equal(ours, theirs) for ours, theirs in zip(after, fresh, strict=True))


def test_episode_start_resets_row_by_row() -> None:
    agent = make()
    batch = walk(3)
    actions, state = agent.predict(batch)
    assert actions.shape == (3,)
    assert [part.shape for part in state] == shapes(agent, 3)
    _, fresh = agent.predict(batch)
    _, kept = agent.predict(batch, state, np.zeros(3, bool))
    _, mixed = agent.predict(batch, state, [True, False, False])
    for part, empty, gone_on in zip(mixed, fresh, kept, strict=True):
        np.testing.assert_array_equal(part[0], empty[0])
        np.testing.assert_array_equal(part[1:], gone_on[1:])
        assert not np.array_equal(empty, gone_on)


def test_a_batch_equals_its_rows() -> None:
    agent = make()
    sequences = walk(15).reshape(5, 3, 4)
    state, together = None, []
    for batch in sequences:
        actions, state = agent.predict(batch, state)
        together.append(actions.tolist())
    for row in range(3):
        alone, single = None, []
        for batch in sequences:
            action, alone = agent.predict(batch[row], alone)
            assert action.shape == ()
            single.append(int(action))
        assert single == [actions[row] for actions in together]


def test_predict_leaves_the_state_it_was_given_alone() -> None:
    agent = make()
    _, state = agent.predict(OBS)
    before = [part.copy() for part in state]
    agent.predict(OBS, state)
    agent.predict(OBS, state, True)
    for part, copied in zip(state, before, strict=True):
        np.testing.assert_array_equal(part, copied)


def test_a_list_and_tensors_are_states_too() -> None:
    agent = make()
    _, state = agent.predict(OBS)
    _, expected = agent.predict(OBS, state)
    for given in (list(state), tuple(torch.tensor(part) for part in state), tuple(part.tolist() for part in state)):
        for ours, theirs in zip(agent.predict(OBS, given)[1], expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda state: state[:1],
        lambda state: (*state, state[0]),
        lambda state: (),
        lambda state: tuple(part[:, 0] for part in state),
        lambda state: tuple(np.repeat(part, 2, 0) for part in state),
        lambda state: tuple(part[..., :-1] for part in state),
        lambda state: 3,
        lambda state: "state",
        lambda state: state[0],
        lambda state: {"h": state[0], "c": state[1]},
        lambda state: tuple(np.full_like(part, np.nan) for part in state),
        lambda state: tuple(part.astype(str) for part in state),
        lambda state: (state[0], None),
    ],
    ids=["one part", "three parts", "empty", "no layers", "two rows", "size", "number", "text", "array", "dict", "nan",
         "texts", "none"],
)  # fmt: skip
def test_a_state_that_is_not_this_policys_is_refused(wrong) -> None:
    agent = make()
    _, state = agent.predict(OBS)
    with pytest.raises(ConfigError, match=r"state .*hand back the state that predict returned"):
        agent.predict(OBS, wrong(state))


def test_finite_states_whose_sum_is_not_are_taken() -> None:
    agent = make()
    _, state = agent.predict(OBS)
    huge = tuple(np.full_like(part, 3e38) for part in state)
    assert agent.predict(OBS, huge)[1] is not None
    huge[0][0, 0, 0] = np.inf
    with pytest.raises(ConfigError, match="state is not finite"):
        agent.predict(OBS, huge)


@pytest.mark.parametrize("start", [[True, False], [[True]], []])
def test_an_episode_start_of_another_shape_is_refused(start: list) -> None:
    agent = make()
    with pytest.raises(ConfigError, match="episode_start has shape"):
        agent.predict(OBS, None, start)


def test_a_policy_without_memory_has_no_state() -> None:
    agent = PPO("CartPole-v1", n_steps=16, batch_size=16)
    expected, state = agent.predict(OBS)
    assert state is None
    assert agent.predict(OBS, None, True) == (expected, None)


def test_a_mask_holds_with_memory() -> None:
    agent = make(DictEnv)
    agent.learn(64, progress=False)  # the environment refuses what the mask forbids
    obs = {"position": np.zeros(3), "room": 2, "action_mask": np.array([0, 0, 1])}
    state = None
    for _ in range(5):
        action, state = agent.predict(obs, state, deterministic=False)
        assert action == 7
