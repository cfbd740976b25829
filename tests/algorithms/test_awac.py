"""What AWAC learns: the policy's own values, and to clone what is better than it would do."""

import math

import pytest
import torch

from rl_training import AWAC, ConfigError
from rl_training.algorithms import AWACAlgorithm, AWACConfig
from rl_training.core import Schedule
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, make_batch, moved, say


def make(**settings: object) -> AWACAlgorithm:
    torch.manual_seed(0)
    return AWACAlgorithm(AWACConfig(**{"net_arch": ()} | settings), SPEC)


def test_critics_bootstrap_from_what_the_policy_draws_without_entropy() -> None:
    algorithm, batch = make(), make_batch()
    say(algorithm.critics, 0.0, 0.0)
    say(algorithm.targets, 0.0, 1.0, slope=(1.0, 10.0))
    with torch.no_grad():
        torch.manual_seed(3)
        action = algorithm.policy.distribution(batch.next_obs).sample().clamp(-1, 1)
    torch.manual_seed(3)
    value = algorithm.next_value(batch)
    torch.testing.assert_close(value, action[:, 0] + 10 * action[:, 1])
    torch.manual_seed(3)
    _, _, rows = algorithm.critic_loss(batch)
    torch.testing.assert_close(rows["priority"], (1 + 0.5 * value).abs())


def test_the_advantage_is_over_the_policys_own_actions() -> None:
    algorithm, batch = make(n_actions=5), make_batch()
    say(algorithm.critics, 2.0, 3.0, slope=(1.0, 10.0))
    with torch.no_grad():
        mean, log_std = algorithm.policy.distribution(batch.obs)
        torch.testing.assert_close(log_std, torch.full((2,), -3.0))  # the middle of -6 and 0
        torch.manual_seed(3)
        drawn = (mean.unsqueeze(1) + log_std.exp() * torch.randn(6, 5, 2)).clamp(-1, 1)
        torch.manual_seed(3)
        found = algorithm.advantage(batch)
    slope = torch.tensor([1.0, 10.0])
    torch.testing.assert_close(found, batch.action @ slope - (drawn @ slope).mean(1), rtol=1e-4, atol=1e-4)


def gradients(algorithm: AWACAlgorithm, weighted: bool) -> list[torch.Tensor]:
    """Of the policy's loss, or of the plain unlikelihood of the data's actions."""
    batch, parameters = make_batch(), list(algorithm.policy.parameters())
    log_prob = algorithm.policy.distribution(batch.obs).log_prob(batch.action)
    torch.manual_seed(3)
    return list(torch.autograd.grad(algorithm.actor_loss(batch).value if weighted else -log_prob.mean(), parameters))


@pytest.mark.parametrize("weights", ["clipped", "softmax"])
def test_with_a_large_lambda_it_is_behaviour_cloning(weights: str) -> None:
    algorithm = make(beta=1e-7, weights=weights, net_arch=(8,))
    for mine, cloning in zip(gradients(algorithm, True), gradients(algorithm, False), strict=True):
        torch.testing.assert_close(mine, cloning, rtol=1e-4, atol=1e-5)


def test_weights_are_bounded_or_share_the_batch_among_the_rows_that_count() -> None:
    advantage, batch = torch.tensor([0.0, 1.0, 50.0, -50.0, 2.0, 9.0]), make_batch()
    clipped = make(beta=2.0).weigh(advantage, batch)
    torch.testing.assert_close(clipped, torch.tensor([1.0, math.exp(2), 100.0, math.exp(-100), math.exp(4), 100.0]))
    some = batch._replace(weight=torch.tensor([1.0, 1, 0, 0, 1, 0]))
    shared = make(weights="softmax", beta=2.0).weigh(advantage, some)
    expected = torch.tensor([0.0, 2.0, 4.0]).softmax(0) * 3
    torch.testing.assert_close(shared[[0, 1, 4]], expected)
    assert torch.equal(shared[[2, 3, 5]], torch.zeros(3))


def test_the_policy_of_a_bandit_is_the_datas_times_the_exponential_reward() -> None:
    """Actions of -0.5 and 0.5, as often, earn r and -r: the best fit has their mean under mu * exp(r / lambda)."""
    algorithm = make(beta=2.0, n_actions=50, actor_learning_rate=Schedule(0.02, 0.02))
    say(algorithm.critics, 0.0, 0.0, slope=(0.8, 0.0))
    side = torch.tensor([-0.5, 0.5]).repeat(16).unsqueeze(-1)
    batch = make_batch(32, obs=torch.zeros(32, 3), action=side.expand(32, 2))
    with torch.no_grad():
        algorithm.policy.log_std_logit.fill_(1.0)
    for _ in range(150):
        algorithm.update_actor(batch)
    mean = algorithm.mode(batch.obs)[0, 0].item()
    assert mean == pytest.approx(0.5 * math.tanh(2.0 * 0.8 * 0.5), abs=0.03)


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.policy, lambda: algorithm.update(batch)) == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_actions": 0}, r"algorithm.n_actions=0 must be at least 1"),
        ({"weights": "exp"}, r"algorithm.weights='exp' .*clipped.*softmax"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        AWAC("Pendulum-v1", **TINY | settings)
