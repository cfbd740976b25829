"""What CQL learns: SAC's critics with a penalty on what data never tried, its weight fixed or learned."""

import math

import pytest
import torch
from torch import Tensor

from rl_training import CQL, ConfigError
from rl_training.algorithms import CQLAlgorithm, CQLConfig, SACAlgorithm, SACConfig
from rl_training.core import Schedule, StepBatch
from rl_training.functional import sampled_conservative_gap
from tests.algorithms.boxes import SPEC, TINY, asked_gradients, make_batch, moved, say

D, N = 2, 4  # actions, and draws of each kind


def make(**settings: object) -> CQLAlgorithm:
    torch.manual_seed(0)
    return CQLAlgorithm(CQLConfig(**{"net_arch": (), "n_actions": N, "ent_coef": 0.3} | settings), SPEC)


def gap_of(algorithm: CQLAlgorithm, batch: StepBatch, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return algorithm.critic_loss(batch).metrics["conservative_loss"]


def test_the_gap_of_constant_values_is_the_volume_and_the_number_of_samples() -> None:
    log_density = torch.full((5, N), -D * math.log(2))  # uniform in [-1, 1]
    gap = sampled_conservative_gap(torch.full((2, 5, N), 7.0), log_density, torch.full((2, 5), 7.0))
    torch.testing.assert_close(gap, torch.full((2, 5), D * math.log(2) + math.log(N)))


def test_the_penalty_is_the_soft_maximum_over_three_kinds_of_actions_all_valued_here() -> None:
    """Drawn again by hand in the order of the update: at the observations, at the next ones, uniform."""
    algorithm, batch = make(net_arch=(8,), cql_alpha=2.0), make_batch()
    torch.manual_seed(3)
    with torch.no_grad():
        drawn = []
        for obs in (batch.obs, batch.next_obs):
            mean, log_std = algorithm.policy.distribution(obs)
            before = mean.unsqueeze(1) + log_std.exp().unsqueeze(1) * torch.randn(6, N, D)
            log_prob = torch.distributions.Normal(mean.unsqueeze(1), log_std.exp().unsqueeze(1)).log_prob(before)
            drawn.append((before.tanh(), (log_prob - (1 - before.tanh() ** 2).log()).sum(-1)))
        drawn.append((2 * torch.rand(6, N, D) - 1, torch.full((6, N), -D * math.log(2))))
        terms = [
            algorithm.critics(batch.obs, action[:, i]).squeeze(-1) - log_density[:, i]
            for action, log_density in drawn
            for i in range(N)
        ]
        q = algorithm.critics(batch.obs, batch.action).squeeze(-1)
        gap = torch.stack(terms).logsumexp(0) - q
        target = 1 + 0.5 * algorithm.targets(batch.next_obs, algorithm.mode(batch.next_obs)).squeeze(-1).amin(0)
    torch.manual_seed(3)
    loss, metrics, rows = algorithm.critic_loss(batch)
    assert metrics["conservative_loss"].item() == pytest.approx(gap.mean().item(), rel=1e-4)
    assert metrics["critic_loss"].item() == pytest.approx((q - target).square().sum(0).mean().item(), rel=1e-5)
    wanted = metrics["critic_loss"] + 2.0 * gap.sum(0).mean()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-4)
    torch.testing.assert_close(rows["priority"], (q - target).abs().mean(0))


def test_without_penalty_and_with_entropy_it_is_sac() -> None:
    ours, batch = make(net_arch=(8,), cql_alpha=0.0, backup="soft"), make_batch()
    torch.manual_seed(0)
    sac = SACAlgorithm(SACConfig(net_arch=(8,), ent_coef=0.3), SPEC)
    gradients = []
    for algorithm in (ours, sac):
        torch.manual_seed(3)
        loss = algorithm.critic_loss(batch).value
        gradients.append(torch.autograd.grad(loss, list(algorithm.critics.parameters())))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, 2 * theirs, rtol=1e-4, atol=1e-6)  # SAC halves its squared errors


@pytest.mark.parametrize("backup", ["mode", "sample", "max", "soft"])
def test_the_next_action_of_the_targets(backup: str) -> None:
    algorithm, batch = make(backup=backup), make_batch()
    say(algorithm.critics, 0.0, 0.0)
    say(algorithm.targets, 0.0, 1.0, slope=(1.0, 10.0))
    with torch.no_grad():
        there = algorithm.policy.distribution(batch.next_obs)
        torch.manual_seed(3)
        mean, log_std = there
        noise = torch.randn(6, N, D) if backup == "max" else torch.randn(6, 1, D)
        drawn = (mean.unsqueeze(1) + log_std.exp().unsqueeze(1) * noise).tanh()
        value = (drawn[..., 0] + 10 * drawn[..., 1]).amax(-1)
        if backup == "mode":
            value = mean.tanh()[:, 0] + 10 * mean.tanh()[:, 1]
        if backup == "soft":
            value = value - 0.3 * there.log_prob(drawn.squeeze(1))
        torch.manual_seed(3)
        found = algorithm.backup_value(there, batch)
    torch.testing.assert_close(found, value, rtol=1e-3, atol=1e-3)


def bandit(cql_alpha: float) -> tuple[float, float]:
    """The values of the data's actions and of uniform ones, where every action earns 1 and data know a few of them."""
    torch.manual_seed(0)
    algorithm = make(net_arch=(16,), cql_alpha=cql_alpha, learning_rate=Schedule(3e-3, 3e-3))
    action = 0.5 + 0.1 * torch.rand(64, D)
    batch = make_batch(64, obs=torch.zeros(64, 3), action=action, discount=torch.zeros(64))
    for _ in range(120):
        algorithm.update(batch)
        algorithm.update_actor(batch)
    with torch.no_grad():
        values = [algorithm.critics(batch.obs, a).mean().item() for a in (action, 2 * torch.rand(64, D) - 1)]
    return values[0], values[1]


def test_untried_actions_are_valued_below_the_truth_and_the_more_so_the_larger_alpha() -> None:
    (data, free), (small_data, small), (large_data, large) = (bandit(alpha) for alpha in (0.0, 0.1, 2.0))
    assert data == pytest.approx(1.0, abs=0.1)
    assert abs(data - free) < 0.5  # without a penalty, what the network makes of them
    assert large < small < 0.5  # the truth is 1
    assert large_data - large > small_data - small > 0.5


def test_the_multiplier_rises_while_the_gap_is_wider_than_wanted_and_only_then() -> None:
    batch = make_batch()
    gap = gap_of(make(), batch).item()
    for target, sign in ((gap - 1, 1.0), (gap + 1, -1.0)):
        algorithm = make(target_gap=target, cql_alpha_learning_rate=Schedule(0.1, 0.1))
        torch.manual_seed(3)
        step = algorithm.update(batch)
        assert step.metrics["cql_alpha"].item() == 5.0  # a multiplier of 1, as it was in this update
        assert step.metrics["cql_alpha_loss"].item() == pytest.approx(-5.0 * (gap - target), rel=1e-4)
        assert algorithm.log_multiplier.item() == pytest.approx(sign * 0.1, rel=1e-3)
        assert algorithm.cql_alpha.item() == pytest.approx(5.0 * math.exp(sign * 0.1), rel=1e-3)


def test_several_actions_of_an_observation_are_valued_as_one_by_one() -> None:
    critics, batch = make(net_arch=(8,)).critics, make_batch()
    action = torch.randn(6, 5, D)
    found = critics.of_several(batch.obs, action)
    assert found.shape == (2, 6, 5, 1)
    for i in range(5):
        torch.testing.assert_close(found[:, :, i], critics(batch.obs, action[:, i]))


def test_each_step_moves_its_own_part() -> None:
    algorithm, batch = make(net_arch=(8,), ent_coef="auto", target_gap=1.0), make_batch()
    assert moved(algorithm, lambda: algorithm.update(batch)) == {"critics", "log_multiplier"}
    assert moved(algorithm, lambda: algorithm.update_actor(batch)) == {"policy", "log_ent_coef"}
    assert asked_gradients(algorithm.policy, lambda: algorithm.update(batch)) == 0
    assert asked_gradients(algorithm.critics, lambda: algorithm.update_actor(batch)) == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_actions": 0}, r"algorithm.n_actions=0 must be at least 1"),
        ({"cql_alpha": -1.0}, r"algorithm.cql_alpha=-1.0 must be at least 0"),
        ({"cql_alpha": 0.0, "target_gap": 5.0}, r"algorithm.cql_alpha=0 leaves no penalty .*: raise it, or drop target_gap"),
        ({"cql_alpha_learning_rate": 1e-4}, r"algorithm.cql_alpha_learning_rate is that of a learned multiplier: set target"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        CQL("Pendulum-v1", **TINY | settings)
