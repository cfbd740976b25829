"""Fitted Q evaluation gives the values of a policy: those that linear algebra gives."""

import numpy as np
import pytest
import torch

from rl_training import Dataset
from rl_training.algorithms import BCAlgorithm, BCConfig, DQNAlgorithm, DQNConfig
from rl_training.algorithms.fqe import FQEAlgorithm, FQEConfig, action_probabilities
from rl_training.core import ActionConverter, Box, Discrete, MultiBinary, Policy, Schedule, Spec
from rl_training.experience import LoggedSteps
from rl_training.runtime import Phase, Trainer

GAMMA = 0.8
TABLE = Spec(Discrete(3), Discrete(2))
# Where (state, action) leads, out of four tries; state 3 is the end.
LEADS = {(0, 0): (0, 0, 0, 1), (0, 1): (1, 1, 2, 2), (1, 0): (0, 2, 2, 2), (1, 1): (1, 1, 1, 3)}
LEADS |= {(2, 0): (3, 3, 3, 3), (2, 1): (0, 1, 2, 3)}
REWARD = np.array([[0.0, -1.0], [2.0, 0.5], [1.0, -0.5]])
# Adam's step ends at zero, so that what is left is the noise of the last targets.
SETTINGS = {"gamma": GAMMA, "net_arch": (), "batch_size": 256, "tau": 0.1, "learning_rate": Schedule(0.05, 0.0)}


def all_transitions() -> Dataset:
    rows = [(s, a, after) for (s, a), ends in LEADS.items() for after in ends]
    state, action, after = np.array(rows).T
    return Dataset.from_arrays(
        obs=state,
        action=action,
        reward=REWARD[state, action],
        terminated=after == 3,
        truncated=after != 3,
        next_obs=np.minimum(after, 2),
        spec=TABLE,
    )


def solve(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(I - gamma P)^-1 r, and the values of actions that go with it."""
    moves = np.zeros((3, 2, 4))
    for (s, a), ends in LEADS.items():
        for after in ends:
            moves[s, a, after] += 0.25
    moves = moves[:, :, :3]  # the end is worth nothing
    P, r = np.einsum("sa,sat->st", probs, moves), (probs * REWARD).sum(1)
    v = np.linalg.solve(np.eye(3) - GAMMA * P, r)
    return REWARD + GAMMA * moves @ v, v


def stochastic(probs: np.ndarray) -> Policy:
    """A policy with these probabilities, as behaviour cloning would make it."""
    policy = BCAlgorithm(BCConfig(net_arch=()), TABLE).policy
    with torch.no_grad():
        policy.head.net.bias0.zero_()
        policy.head.net.weight0.copy_(torch.from_numpy(np.log(probs)).T)
    return policy


def evaluate(target: Policy, data: Dataset, updates: int = 700, **settings: object) -> FQEAlgorithm:
    torch.manual_seed(0)
    config = FQEConfig(**SETTINGS | settings)
    algorithm = FQEAlgorithm(config, data.spec, target)
    convert = ActionConverter(data.spec.action, squashed=target.squashed)
    logged = LoggedSteps(data, convert, gamma=config.gamma, seed=1)
    Trainer(algorithm, [Phase(logged, None, updates)], {"data": logged}, seed=2).run()
    return algorithm


def tabular(algorithm: FQEAlgorithm) -> tuple[np.ndarray, np.ndarray]:
    states = torch.arange(3)
    with torch.no_grad():
        q = [algorithm.q(algorithm.network, states, torch.full((3,), a)) for a in (0, 1)]
        return torch.stack(q, 1).numpy(), algorithm.values(states).numpy()


PROBS = np.array([[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]])


def test_values_of_a_stochastic_policy_are_those_of_linear_algebra() -> None:
    q, v = tabular(evaluate(stochastic(PROBS), all_transitions()))
    right_q, right_v = solve(PROBS)
    np.testing.assert_allclose(q, right_q, atol=0.05)
    np.testing.assert_allclose(v, right_v, atol=0.05)
    assert np.abs(solve(np.eye(2)[[1, 0, 0]])[1] - right_v).max() > 0.3  # its most likely actions are worth another


def test_values_of_its_most_likely_actions() -> None:
    q, v = tabular(evaluate(stochastic(PROBS), all_transitions(), deterministic=True))
    right_q, right_v = solve(np.eye(2)[[1, 0, 0]])
    np.testing.assert_allclose(q, right_q, atol=0.05)
    np.testing.assert_allclose(v, right_v, atol=0.05)


def test_values_of_a_greedy_policy() -> None:
    """A method that has values of its own is evaluated by what it does, not by what it believes."""
    torch.manual_seed(0)
    target = DQNAlgorithm(DQNConfig(net_arch=()), TABLE).policy
    with torch.no_grad():
        target.network.advantage.weight0.copy_(torch.tensor([[5.0, 4.0], [3.0, 9.0], [0.0, 1.0]]).T)
        target.network.advantage.bias0.zero_()
    q, v = tabular(evaluate(target, all_transitions()))
    right_q, right_v = solve(np.eye(2)[[0, 1, 1]])
    np.testing.assert_allclose(q, right_q, atol=0.05)
    np.testing.assert_allclose(v, right_v, atol=0.05)


BOX = Spec(Box((2,), (-1.0,) * 2, (1.0,) * 2), Box((1,), (-4.0,), (4.0,)))
SLOPE = torch.tensor([[0.5, -1.0]])


def linear(log_std: float) -> Policy:
    policy = BCAlgorithm(BCConfig(net_arch=(), log_std_init=log_std), BOX).policy
    with torch.no_grad():
        policy.head.net.bias0.fill_(0.25)
        policy.head.net.weight0.copy_(SLOPE)
    return policy


@pytest.mark.parametrize(("log_std", "deterministic"), [(-1.0, False), (0.0, True)])
def test_values_of_continuous_actions(log_std: float, deterministic: bool) -> None:
    """States that stay and a reward of 2a + x: the value is (2 mean(x) + x) / (1 - gamma), which is linear."""
    rng = np.random.default_rng(0)
    obs, action = rng.uniform(-1, 1, (600, 2)).astype(np.float32), rng.uniform(-4, 4, (600, 1))
    no = np.zeros(600, bool)
    data = Dataset.from_arrays(
        obs=obs,
        action=action,
        reward=2 * action[:, 0] + obs[:, 0],
        terminated=no,
        truncated=~no,
        next_obs=obs,
        spec=BOX,
    )
    settings = {"gamma": 0.5, "deterministic": deterministic, "normalize_observation": False}
    algorithm = evaluate(linear(log_std), data, **settings)
    states = torch.from_numpy(obs[:50])
    mean = states @ SLOPE[0] + 0.25
    right = (2 * mean + states[:, 0]) / (1 - 0.5)
    with torch.no_grad():
        q = algorithm.q(algorithm.network, states, torch.full((50, 1), 3.0))
        v = torch.stack([algorithm.values(states) for _ in range(400 if not deterministic else 1)]).mean(0)
    torch.testing.assert_close(q, 6.0 + states[:, 0] + 0.5 * right, rtol=0, atol=0.1)
    torch.testing.assert_close(v, right, rtol=0, atol=0.2 if not deterministic else 0.1)


def test_the_policy_and_the_callers_copy_stay_as_they_are() -> None:
    target = stochastic(PROBS)
    before = [parameter.clone() for parameter in target.parameters()]
    algorithm = evaluate(target, all_transitions(), updates=5)
    for ours, theirs, old in zip(algorithm.policy.parameters(), target.parameters(), before, strict=True):
        assert torch.equal(ours, old)
        assert torch.equal(theirs, old)
        assert ours is not theirs
        assert theirs.requires_grad
        assert not ours.requires_grad


def test_probabilities_of_actions() -> None:
    states = torch.arange(3)
    found = action_probabilities(stochastic(PROBS), states, 2, deterministic=False)
    np.testing.assert_allclose(found.detach(), PROBS, rtol=1e-5)
    likely = action_probabilities(stochastic(PROBS), states, 2, deterministic=True)
    assert likely.tolist() == [[0, 1], [1, 0], [1, 0]]
    assert likely.dtype == torch.float32


def test_other_actions_are_refused() -> None:
    spec = Spec(BOX.obs, MultiBinary(2))
    target = BCAlgorithm(BCConfig(), spec).policy
    with pytest.raises(ValueError, match="fitted Q evaluation needs Discrete or Box actions, not MultiBinary"):
        FQEAlgorithm(FQEConfig(), spec, target)
