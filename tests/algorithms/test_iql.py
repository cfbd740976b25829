"""What IQL learns: an expectile of the data's values, critics that bootstrap from it, and a policy that only clones."""

import math

import pytest
import torch

from rl_training import IQL, ConfigError
from rl_training.algorithms import IQLAlgorithm, IQLConfig
from rl_training.core import Schedule
from rl_training.functional import DiagGaussian, expectile_loss
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, assert_follows, make_batch, moved, say


def make(**settings: object) -> IQLAlgorithm:
    torch.manual_seed(0)
    return IQLAlgorithm(IQLConfig(**{"net_arch": ()} | settings), SPEC)


def say_value(algorithm: IQLAlgorithm, value: float) -> None:
    """Makes the value network, without hidden layers, say this of every observation."""
    weight, bias = algorithm.value[1].parameters()
    with torch.no_grad():
        weight.zero_()
        bias.fill_(value)


@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.7, 0.99])
def test_the_expectile_of_a_coin_is_the_expectile(expectile: float) -> None:
    value = torch.tensor(expectile, requires_grad=True)
    loss = expectile_loss(torch.tensor([0.0, 1.0]) - value, expectile).mean()
    assert torch.autograd.grad(loss, value)[0].item() == pytest.approx(0, abs=1e-6)
    assert expectile_loss(torch.tensor(2.0), expectile).item() == pytest.approx(4 * expectile)
    assert expectile_loss(torch.tensor(-2.0), expectile).item() == pytest.approx(4 * (1 - expectile))


@pytest.mark.parametrize(("expectile", "value"), [(0.5, 0.5), (0.7, 0.7), (0.99, 0.99)])
def test_values_go_from_the_mean_to_the_best_in_the_data(expectile: float, value: float) -> None:
    """The target critics say 0 of one half of the rows and 1 of the other, by their actions."""
    algorithm = make(expectile=expectile, learning_rate=Schedule(0.03, 0.03))
    say(algorithm.targets, 0.5, 0.5, slope=(0.5, 0.0))
    side = torch.tensor([-1.0, 1.0]).repeat(3).unsqueeze(-1)
    batch = make_batch(obs=torch.zeros(6, 3), action=side.expand(6, 2))
    for _ in range(300):
        algorithm.update(batch)
    assert algorithm.values(batch.obs)[0].item() == pytest.approx(value, abs=0.02)


def test_critics_regress_on_the_value_and_the_value_on_the_smaller_target() -> None:
    algorithm, batch = make(expectile=0.7), make_batch()
    say(algorithm.critics, 2.0, 4.0)
    say(algorithm.targets, 5.0, 3.0)
    say_value(algorithm, 1.0)
    loss, metrics, rows = algorithm.critic_loss(batch)
    target = 1 + 0.5 * 1.0  # the reward and the discounted value of the next observation
    assert metrics["critic_loss"].item() == pytest.approx((2 - target) ** 2 + (4 - target) ** 2)
    assert metrics["value_loss"].item() == pytest.approx(0.7 * (3 - 1) ** 2)
    assert loss.item() == pytest.approx(metrics["critic_loss"].item() + metrics["value_loss"].item())
    torch.testing.assert_close(rows["priority"], torch.full((6,), (0.5 + 2.5) / 2))
    say_value(algorithm, 8.0)
    assert algorithm.critic_loss(batch).metrics["value_loss"].item() == pytest.approx(0.3 * (3 - 8) ** 2, rel=1e-5)
    ended = algorithm.critic_loss(make_batch(discount=torch.zeros(6))).metrics["critic_loss"]
    assert ended.item() == pytest.approx(1 + 9)


def test_critics_never_ask_the_policy() -> None:
    algorithm, batch = make(net_arch=(8,)), make_batch()
    before = algorithm.critic_loss(batch).value
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.normal_()
    assert torch.equal(algorithm.critic_loss(batch).value, before)


def test_the_policy_clones_by_the_exponential_of_the_advantage() -> None:
    algorithm, batch = make(beta=2.0), make_batch()
    say(algorithm.targets, 1.0, 0.5, slope=(0.3, 0.0))
    say_value(algorithm, 0.2)
    loss, metrics, _ = algorithm.actor_loss(batch)
    weight = (2 * (0.5 + 0.3 * batch.action[:, 0] - 0.2)).exp()
    log_prob = algorithm.policy.distribution(batch.obs).log_prob(batch.action)
    assert loss.item() == pytest.approx(-(weight * log_prob).mean().item(), rel=1e-5)
    assert metrics["advantage_weight"].item() == pytest.approx(weight.mean().item(), rel=1e-5)
    say_value(algorithm, -50.0)
    assert algorithm.actor_loss(batch).metrics["advantage_weight"].item() == 100.0
    say_value(make(beta=0.0), 7.0)
    assert make(beta=0.0).actor_loss(batch).metrics["advantage_weight"].item() == 1.0  # behaviour cloning


def test_each_step_moves_its_own_part_and_targets_follow() -> None:
    algorithm, batch = make(net_arch=(8,), tau=0.25), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics", "value"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy"}
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.value, lambda: algorithm.update_actor(batch)) == 0
    assert asked_gradients(algorithm.policy, lambda: algorithm.update(batch)) == 0
    pairs = list(zip(algorithm.targets.parameters(), algorithm.critics.parameters(), strict=True))
    assert_follows(algorithm, pairs, 0.25)


def test_what_is_drawn_beyond_the_bounds_is_clipped_and_has_no_density() -> None:
    policy, obs = make().policy, torch.zeros(2_000, 3)
    mean, log_std = policy.distribution(obs)
    torch.testing.assert_close(log_std, torch.full((2,), -1.5))  # the middle of -5 and 2
    with torch.no_grad():
        policy.log_std_logit.fill_(1.0)
    mean, log_std = policy.distribution(obs)
    act = policy.act(obs)
    clipped = (act.action.abs() == 1).any(-1)
    assert 0.1 < clipped.float().mean() < 0.9
    assert act.action.abs().max() == 1
    assert torch.equal(act.log_prob.isnan(), clipped)
    inside = DiagGaussian(mean, log_std).log_prob(act.action)[~clipped]
    torch.testing.assert_close(act.log_prob[~clipped], inside)
    best = policy.act(obs, explore=False)
    assert torch.equal(best.action, torch.tanh(policy.network(obs)))
    assert best.log_prob[0].item() == pytest.approx(-log_std.sum().item() - math.log(2 * math.pi))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"expectile": 0.0}, r"algorithm.expectile=0.0 must be above 0"),
        ({"expectile": 1.0}, r"algorithm.expectile=1 never lowers a value: use a number below 1"),
        ({"expectile": 1.5}, r"algorithm.expectile=1.5 must be at most 1"),
        ({"beta": -1.0}, r"algorithm.beta=-1.0 must be at least 0"),
        ({"max_weight": 0.0}, r"algorithm.max_weight=0.0 must be above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        IQL("Pendulum-v1", **TINY | settings)
