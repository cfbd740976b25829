import math

import pytest
import torch
from torch import distributions

from rl_training.functional import DiagGaussian, SquashedGaussian


def standard(rows: int = 1) -> SquashedGaussian:
    return SquashedGaussian(torch.zeros(rows, 1), torch.zeros(rows, 1))


@pytest.mark.parametrize(("before", "log_prob"), [(1.0, -0.551377), (10.0, -32.3052), (-1.0, -0.551377)])
def test_log_prob_is_exact_also_where_tanh_has_saturated(before: float, log_prob: float) -> None:
    """The usual epsilon inside the logarithm gives -37.11 for the second one."""
    assert standard().log_prob_before(torch.tensor([[before]])).item() == pytest.approx(log_prob, abs=1e-4)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 2.0)])
def test_density_integrates_to_one(mean: float, std: float) -> None:
    before = torch.linspace(-12, 12, 20_001, dtype=torch.float64)  # actions lie densest where tanh is flat
    edges, middles = torch.tanh(before), torch.tanh((before[1:] + before[:-1]) / 2)
    parameters = (torch.full((20_000, 1), value, dtype=torch.float64) for value in (mean, math.log(std)))
    density = SquashedGaussian(*parameters).log_prob(middles.unsqueeze(-1)).exp()
    assert (density * edges.diff()).sum().item() == pytest.approx(1.0, abs=1e-5)


def test_log_prob_equals_torch_and_sums_over_the_actions() -> None:
    gen = torch.Generator().manual_seed(0)
    mean, log_std, before = torch.randn(3, 5, 2, generator=gen, dtype=torch.float64)
    normal = distributions.Normal(mean, log_std.exp())
    reference = distributions.TransformedDistribution(normal, [distributions.TanhTransform(cache_size=1)])
    ours, action = SquashedGaussian(mean, log_std), torch.tanh(before)
    expected = reference.log_prob(action).sum(-1)
    torch.testing.assert_close(ours.log_prob(action), expected)
    torch.testing.assert_close(ours.log_prob_before(before), expected)
    steep = DiagGaussian(mean, log_std).log_prob(before) - (1 - action.square()).log().sum(-1)
    torch.testing.assert_close(ours.log_prob_before(before), steep)


def test_draw_gives_an_action_and_its_log_prob() -> None:
    torch.manual_seed(0)
    distribution = SquashedGaussian(torch.full((20_000, 1), 0.5), torch.full((20_000, 1), -1.0))
    action, log_prob = distribution.draw()
    assert action.abs().max() < 1
    torch.testing.assert_close(log_prob, distribution.log_prob(action), rtol=1e-4, atol=1e-3)
    before = torch.atanh(action)
    assert before.mean().item() == pytest.approx(0.5, abs=0.01)
    assert before.std().item() == pytest.approx(torch.tensor(-1.0).exp().item(), abs=0.01)
    torch.manual_seed(0)
    assert torch.equal(distribution.sample(), action)


def test_mode_is_the_mean_pushed_through_tanh() -> None:
    mean = torch.tensor([[0.3, -2.0]])
    assert torch.equal(SquashedGaussian(mean, torch.zeros(1, 2)).mode(), torch.tanh(mean))


def test_actions_at_the_bounds_have_a_finite_log_prob() -> None:
    action = torch.tensor([[-1.0], [1.0], [1 - 1e-9]])
    assert torch.isfinite(standard(3).log_prob(action)).all()


def test_gradients_flow_through_the_action_and_the_log_prob_and_stay_finite() -> None:
    """By reparameterisation: with the noise held, the gradient is that of finite differences."""
    for scale in (1.0, 30.0):  # the second one saturates
        parameters = (scale * torch.tensor([[0.4, -0.2]], dtype=torch.float64)).requires_grad_()

        def objective(values: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(0)
            mean, log_std = values.chunk(2, -1)
            action, log_prob = SquashedGaussian(mean, log_std.clamp(-20, 2)).draw()
            return (2 * action.sum(-1) + log_prob).sum()

        (gradient,) = torch.autograd.grad(objective(parameters), parameters)
        assert torch.isfinite(gradient).all()
        if scale == 1:
            steps = 1e-6 * torch.eye(2, dtype=torch.float64)
            pairs = ((objective(parameters + step), objective(parameters - step)) for step in steps)
            numeric = [(up - down).item() / 2e-6 for up, down in pairs]
            assert gradient.flatten().tolist() == pytest.approx(numeric, rel=1e-5)
