"""What conservative Q-learning adds to DQN, and what that does where data try one action only."""

import numpy as np
import pytest
import torch

from rl_training import DQN, Agent, Dataset, DiscreteCQL, DoubleDQN
from rl_training.algorithms import DiscreteCQLAlgorithm, DiscreteCQLConfig, DQNAlgorithm, DQNConfig
from rl_training.core import Box, Dict, Discrete, MultiBinary, Schedule, Spec, StepBatch
from rl_training.experiment.checkpoint import difference
from tests.offline import CQL_SETTINGS, cql, state_of, steps_of

STATES, ACTIONS = 6, 3
BEHAVIOUR = np.array([0, 2, 1, 1, 0, 2])
OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
PLAIN = Spec(OBS, Discrete(2))
MASKED = Spec(Dict({"x": OBS, "action_mask": MultiBinary(2)}), Discrete(2))
TABLE = {"seed": 0, "threads": 1, "compile": False, "net_arch": [], "batch_size": 32, "learning_rate": 0.05}


def one_action_per_state(reward: float) -> Dataset:
    """A chain of states, each with the one action that was ever tried there."""
    states = np.tile(np.arange(STATES), 5)
    terminated = states == STATES - 1
    return Dataset.from_arrays(
        obs=states,
        action=BEHAVIOUR[states],
        reward=np.full(len(states), reward),
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        next_obs=(states + 1) % STATES,
        spec=Spec(Discrete(STATES), Discrete(ACTIONS)),
    )


def greedy(agent: Agent) -> np.ndarray:
    return agent.predict(np.arange(STATES))[0]


@pytest.mark.parametrize("reward", [-1.0, 1.0])
def test_the_greedy_action_is_the_datas_where_it_has_no_other(reward: float) -> None:
    data = one_action_per_state(reward)
    agent = DiscreteCQL(dataset=data, target_update_interval=20, gamma=0.9, cql_alpha=5.0, **TABLE)
    agent.learn(total_updates=300, progress=False)
    np.testing.assert_array_equal(greedy(agent), BEHAVIOUR)


def test_dqn_is_not_bound_to_the_data() -> None:
    """What was tried cost something; what was not, promises nothing worse than where it began."""
    agent = DoubleDQN(dataset=one_action_per_state(-1.0), target_update_interval=20, gamma=0.9, **TABLE)
    agent.learn(total_updates=300, progress=False)
    assert not (greedy(agent) == BEHAVIOUR).any()


def algorithm(spec: Spec = PLAIN, **settings: object) -> DiscreteCQLAlgorithm:
    torch.manual_seed(0)
    return DiscreteCQLAlgorithm(DiscreteCQLConfig(**{"net_arch": ()} | settings), spec)


def say(algorithm: DQNAlgorithm, *q: float) -> None:
    with torch.no_grad():
        for network in (algorithm.policy.network, algorithm.target):
            network.advantage.weight0.zero_()
            network.advantage.bias0.copy_(torch.tensor(q))


def batch(**changes: object) -> StepBatch:
    ones = torch.ones(2)
    parts = StepBatch(torch.zeros(2, 3), torch.tensor([0, 1]), ones, torch.zeros(2), torch.zeros(2, 3), ones, {})
    return parts._replace(**changes)


def test_the_loss_is_dqns_and_the_weighted_gap() -> None:
    for alpha in (0.0, 1.0, 4.0):
        ours = algorithm(cql_alpha=alpha, loss="mse")
        say(ours, 2.0, 0.0)
        loss, metrics, _ = ours.loss(batch())
        gap = (0.126928 + 2.126928) / 2
        assert metrics["loss"].item() == pytest.approx(1.0)  # of both actions: reward 1, values 2 and 0
        assert metrics["conservative_loss"].item() == pytest.approx(gap, abs=1e-5)
        assert loss.item() == pytest.approx(1.0 + alpha * gap, abs=1e-5)
    only_first = batch(weight=torch.tensor([1.0, 0.0]))
    assert ours.loss(only_first).metrics["conservative_loss"].item() == pytest.approx(0.126928, abs=1e-5)


def test_the_gap_is_over_allowed_actions() -> None:
    ours = algorithm(MASKED, cql_alpha=1.0)
    say(ours, 2.0, 50.0)
    obs = {"x": torch.zeros(2, 3), "action_mask": torch.tensor([[1, 0], [1, 0]])}
    metrics = ours.loss(batch(obs=obs, next_obs=obs, action=torch.tensor([0, 0]))).metrics
    assert metrics["conservative_loss"].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("head", ["mean", "c51", "quantile", "iqn"])
def test_the_gap_is_that_of_mean_values_whatever_is_learned_of_the_return(head: str) -> None:
    few = {"n_atoms": 5, "v_min": -2.0, "v_max": 2.0, "n_quantiles": 4, "n_samples": 4, "n_cosines": 4}
    ours = algorithm(head=head, net_arch=(8,), **few)
    loss, metrics, _ = ours.loss(batch())
    assert loss.item() == pytest.approx(metrics["loss"].item() + metrics["conservative_loss"].item(), rel=1e-5)
    assert 0 < metrics["conservative_loss"].item() < 3


def test_without_the_penalty_it_is_dqn_bit_for_bit() -> None:
    """Offline, then online from both sources: every number of the run."""
    agents = [cql(cql_alpha=0.0, total_updates=150, total_timesteps=100)]
    settings = CQL_SETTINGS | {"double": True, "total_updates": 150, "total_timesteps": 100}
    agents.append(DQN("CartPole-v1", dataset=steps_of("CartPole-v1"), **settings))
    agents.append(cql(cql_alpha=0.5, total_updates=150, total_timesteps=100))
    for agent in agents:
        agent.learn(progress=False)
    ours, dqn, conservative = (state_of(agent) for agent in agents)
    assert difference(ours, dqn) is None
    assert difference(ours["algorithm"], conservative["algorithm"]) is not None


def test_more_of_the_penalty_lowers_what_was_not_tried() -> None:
    data, gaps = one_action_per_state(1.0), []
    for alpha in (0.1, 1.0, 10.0):
        agent = DiscreteCQL(dataset=data, target_update_interval=20, gamma=0.5, cql_alpha=alpha, **TABLE)
        agent.learn(total_updates=200, progress=False)
        with torch.no_grad():
            q = agent.algorithm.policy.q_values(torch.arange(STATES)).numpy()
        taken = q[np.arange(STATES), BEHAVIOUR].sum()
        gaps.append(taken / STATES - (q.sum() - taken) / (q.size - STATES))
    assert gaps == sorted(gaps)


def test_defaults() -> None:
    config = DiscreteCQLConfig()
    assert (config.cql_alpha, config.double, config.net_arch, config.batch_size) == (1.0, True, (256, 256), 256)
    assert config.learning_rate == Schedule(3e-4, 3e-4)
    assert config.target_update_interval == 500
    assert isinstance(config, DQNConfig)
    with pytest.raises(ValueError, match=r"algorithm.cql_alpha=-1.0 must be at least 0"):
        cql(cql_alpha=-1)
