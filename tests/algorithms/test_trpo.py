"""TRPO: the Fisher matrix written out, the trust region as a bound that is never crossed, and what a step may touch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rl_training.algorithms import TRPOAlgorithm, TRPOConfig
from rl_training.algorithms.trpo import flat_gradient, flatten
from rl_training.core import (
    Pass,
    RolloutBatch,
    Schedule,
    Spec,
)
from rl_training.experience import RolloutSettings
from rl_training.functional import DiagGaussian, detach, kl_divergence, weighted_mean
from tests.algorithms.trpo_batches import (
    LINEAR,
    SPECS,
    distribution_now,
    divergence,
    make,
    make_batch,
    moved,
    spread,
    state_of,
    with_advantage,
)
from tests.rollouts import act_out, flat

every_space = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def explicit_fisher(algorithm: TRPOAlgorithm, batch: RolloutBatch) -> Tensor:
    """The Fisher matrix of a linear policy, written out and averaged over the rows that count."""
    distribution = distribution_now(algorithm, batch)
    assert isinstance(batch.obs, Tensor)
    bias = torch.ones(len(batch.obs), 1)
    weight = batch.weight / batch.weight.sum()
    if isinstance(distribution, DiagGaussian):
        num = distribution.mean.shape[-1]
        outputs = torch.diag((-2 * distribution.log_std).exp()).expand(len(batch.obs), num, num)
    else:
        p = distribution.log_probs.exp()
        num = p.shape[-1]
        outputs = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
    # Columns of the Jacobian of the outputs: the weights row by row, then the biases.
    x = torch.cat([batch.obs, bias], -1)
    jacobian = torch.einsum("ij,nd->nijd", torch.eye(num), x)
    jacobian = torch.cat([jacobian[..., :-1].flatten(2), jacobian[..., -1]], -1)
    fisher = torch.einsum("n,nia,nij,njb->ab", weight, jacobian, outputs, jacobian)
    if isinstance(distribution, DiagGaussian):  # the deviation comes first among the parameters
        fisher = torch.block_diag(2 * torch.eye(num), fisher)
    return fisher


def product_of(algorithm: TRPOAlgorithm, batch: RolloutBatch) -> Callable[[Tensor], Tensor]:
    distribution = algorithm.batch_distribution(batch)
    divergence = weighted_mean(kl_divergence(detach(distribution), distribution), batch.weight)
    return algorithm.fisher_product(divergence, batch.weight)


@pytest.mark.parametrize("name", ["discrete", "continuous"])
@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_fisher_products_equal_the_explicit_matrix(name: str, damping: float) -> None:
    algorithm = make(SPECS[name], net_arch=LINEAR, cg_damping=damping)
    spread(algorithm, seed=1)
    batch = make_batch(algorithm)
    batch = batch._replace(weight=(torch.arange(64) % 3 > 0).float())
    product = product_of(algorithm, batch)
    size = sum(p.numel() for p in algorithm.policy_parameters)
    columns = torch.stack([product(column) for column in torch.eye(size)], -1)
    torch.testing.assert_close(
        columns, explicit_fisher(algorithm, batch) + damping * torch.eye(size), atol=1e-6, rtol=1e-4
    )


def test_fisher_of_a_softmax_whose_parameters_are_the_logits() -> None:
    algorithm = make(net_arch=LINEAR, cg_damping=0.1)
    logits = torch.tensor([0.5, -1.0, 2.0, 0.0])
    with torch.no_grad():
        algorithm.policy_parameters[1].copy_(logits)
    obs = torch.zeros(16, 4, 3)  # nothing but the biases speaks
    batch = flat(algorithm.prepare(act_out(algorithm, obs, obs))[0])
    p = logits.softmax(-1)
    fisher = torch.diag(p) - torch.outer(p, p)
    vector = torch.randn(16, generator=torch.Generator().manual_seed(0))
    result = product_of(algorithm, batch)(vector)
    torch.testing.assert_close(result[:12], 0.1 * vector[:12])
    torch.testing.assert_close(result[12:], fisher @ vector[12:] + 0.1 * vector[12:])


class Recording(TRPOAlgorithm):
    """Keeps the step that the line search starts from."""

    def line_search(self, batch, advantage, old, before, step):
        self.full_step = step
        return super().line_search(batch, advantage, old, before, step)


@pytest.mark.parametrize("name", ["discrete", "continuous"])
@pytest.mark.parametrize("target_kl", [0.003, 0.01, 0.2])
def test_the_full_step_is_the_natural_gradient_with_quadratic_divergence_at_the_limit(
    name: str, target_kl: float
) -> None:
    torch.manual_seed(0)
    config = TRPOConfig(net_arch=LINEAR, cg_max_steps=40, target_kl=target_kl, normalize_advantage=False)
    algorithm = Recording(config, SPECS[name])
    spread(algorithm, seed=2)
    batch = make_batch(algorithm, seed=3)
    objective = algorithm.objective(algorithm.batch_distribution(batch), batch, batch.advantage)
    gradient = flat_gradient(objective, algorithm.policy_parameters)
    matrix = explicit_fisher(algorithm, batch) + 0.1 * torch.eye(len(gradient))
    algorithm.update_policy(batch)
    step = algorithm.full_step
    assert (0.5 * step @ matrix @ step).item() == pytest.approx(target_kl, rel=1e-4)
    direction = torch.linalg.solve(matrix, gradient)
    torch.testing.assert_close(step / step.norm(), direction / direction.norm(), atol=1e-3, rtol=1e-3)


@every_space
@pytest.mark.parametrize("target_kl", [0.001, 0.01, 0.1])
def test_no_step_ever_leaves_the_trust_region(spec: Spec, target_kl: float) -> None:
    algorithm = make(spec, target_kl=target_kl)
    successes = 0
    for seed in range(25):
        spread(algorithm, seed=seed, size=0.2)
        batch = make_batch(algorithm, seed=seed, scale=1 + seed % 4)
        old, before = distribution_now(algorithm, batch), state_of(algorithm)
        metrics = algorithm.update_policy(batch).metrics
        found = divergence(algorithm, batch, old).item()
        if metrics["is_line_search_success"]:
            successes += 1
            assert 0 < found <= target_kl * (1 + 1e-5)
            assert metrics["kl_divergence_loss"].item() == pytest.approx(found, rel=1e-4, abs=1e-7)
        else:
            assert not moved(before, algorithm)
            assert metrics["kl_divergence_loss"].item() == 0
    assert successes >= 23
    assert not algorithm.failed


@every_space
def test_a_step_improves_the_objective(spec: Spec) -> None:
    algorithm = make(spec, normalize_advantage=False)
    for seed in range(10):
        batch = make_batch(algorithm, seed=seed)
        advantage = batch.advantage
        metrics = algorithm.update_policy(batch).metrics
        with torch.no_grad():
            after = algorithm.objective(algorithm.batch_distribution(batch), batch, advantage)
        assert metrics["is_line_search_success"]
        assert after > advantage.mean()  # at ratio one, the objective is the mean advantage
        torch.testing.assert_close(metrics["policy_objective"], after)


def test_steps_raise_the_probability_of_what_paid() -> None:
    algorithm = make(target_kl=0.05)
    for seed in range(10):
        batch = make_batch(algorithm, seed=seed)
        algorithm.update_policy(with_advantage(batch, (batch.action == 2).float()))
    assert algorithm.policy.distribution(batch.obs).log_probs[:, 2].exp().mean() > 0.9


@pytest.mark.parametrize("advantage", [0.0, 3.0])
def test_equal_advantages_leave_the_policy_as_it_is(advantage: float) -> None:
    algorithm = make(normalize_advantage=advantage != 0)
    batch = make_batch(algorithm)
    before = state_of(algorithm)
    metrics = algorithm.update_policy(with_advantage(batch, torch.full((64,), advantage))).metrics
    assert metrics["is_line_search_success"].item() == 0
    assert metrics["kl_divergence_loss"].item() == 0
    assert not moved(before, algorithm)
    assert not algorithm.failed
    assert not algorithm.stop


@pytest.mark.parametrize("reason", ["objective", "divergence"])
def test_a_failed_search_leaves_the_policy_as_it_is(reason: str) -> None:
    algorithm = make()
    batch = make_batch(algorithm)
    advantage = batch.advantage
    old, bar = distribution_now(algorithm, batch), torch.tensor(-1e9)
    if reason == "objective":
        bar = torch.tensor(1e9)  # nothing is better than that
    else:
        old = type(old)(torch.tensor([0.97, 0.01, 0.01, 0.01]).log().expand(64, 4))  # everything is far from that
    before = state_of(algorithm)
    step = 0.01 * torch.randn(sum(p.numel() for p in algorithm.policy_parameters))
    metrics = algorithm.line_search(batch, advantage, old, bar, step)
    assert metrics["is_line_search_success"].item() == 0
    assert not moved(before, algorithm)
    assert not algorithm.failed


def test_the_search_takes_the_longest_step_that_fits() -> None:
    algorithm = make(line_search_max_iter=30, normalize_advantage=False)
    batch = make_batch(algorithm)
    advantage, old = batch.advantage, distribution_now(algorithm, batch)
    objective = algorithm.objective(algorithm.batch_distribution(batch), batch, advantage)
    gradient = flat_gradient(objective, algorithm.policy_parameters)
    step, start, before = (
        20 * gradient / gradient.norm(),
        flatten(algorithm.policy_parameters).detach(),
        objective.detach(),
    )
    fits = []
    for power in range(30):
        with torch.no_grad():
            algorithm.set_policy(start + 0.8**power * step)
            new = algorithm.objective(algorithm.batch_distribution(batch), batch, advantage)
        fits.append(bool(new > before) and divergence(algorithm, batch, old).item() <= 0.01)
    first = fits.index(True)
    assert first > 3
    with torch.no_grad():
        algorithm.set_policy(start)
    algorithm.line_search(batch, advantage, old, before, step)
    torch.testing.assert_close(flatten(algorithm.policy_parameters).detach(), start + 0.8**first * step)


def test_the_policy_is_stepped_once_on_everything_and_then_the_value_in_minibatches() -> None:
    algorithm = make(n_critic_updates=3, batch_size=16)
    assert algorithm.passes() == (
        Pass(1, None, method="update_policy", one_graph=False),
        Pass(3, 16, method="update"),
    )


def test_defaults_that_matter() -> None:
    c = TRPOConfig()
    assert (c.needs.settings["n_steps"], c.batch_size, c.n_critic_updates, c.gamma, c.gae_lambda) == (
        2048,
        128,
        10,
        0.99,
        0.95,
    )
    assert (c.target_kl, c.cg_max_steps, c.cg_damping) == (0.01, 15, 0.1)
    assert (c.line_search_max_iter, c.line_search_shrinking_factor) == (10, 0.8)
    assert c.learning_rate == Schedule(1e-3, 1e-3)
    assert c.normalize_advantage


def test_the_learning_rate_is_the_value_functions() -> None:
    slow, fast = (make(learning_rate=Schedule(rate, rate)) for rate in (1e-6, 1e-2))
    for algorithm in (slow, fast):
        batch = make_batch(algorithm)
        algorithm.update_policy(batch)
        algorithm.update(batch)
    assert all(map(torch.equal, slow.policy.parameters(), fast.policy.parameters()))
    assert not any(map(torch.equal, slow.value_head.parameters(), fast.value_head.parameters()))


def test_check_refuses_a_batch_larger_than_a_rollout() -> None:
    with pytest.raises(ValueError, match="larger than a rollout"):
        TRPOConfig(batch_size=64).check(RolloutSettings(n_steps=8).supply(4))
    TRPOConfig(batch_size=32).check(RolloutSettings(n_steps=8).supply(4))
