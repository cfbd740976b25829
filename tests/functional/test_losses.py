from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rl_training.functional import (
    approx_kl,
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    normalize_advantage,
    weighted_mean,
)


def value_and_gradient(fn: Callable[[Tensor], Tensor], at: float) -> tuple[float, float]:
    x = torch.tensor(at, requires_grad=True)
    result = fn(x)
    (gradient,) = torch.autograd.grad(result, x)
    return result.item(), gradient.item()


@pytest.mark.parametrize(
    ("advantage", "ratio", "objective", "gradient"),
    [
        (1.0, 1.3, 1.2, 0.0),  # already far enough: no reason to go on
        (-1.0, 1.3, -1.3, -1.0),  # went the wrong way: must come back
        (1.0, 0.7, 0.7, 1.0),
        (-1.0, 0.7, -0.8, 0.0),
        (2.0, 1.0, 2.0, 2.0),  # the first update of an epoch: the plain policy gradient
        (-2.0, 1.1, -2.2, -2.0),
    ],
)
def test_clipped_surrogate_is_pessimistic(advantage: float, ratio: float, objective: float, gradient: float) -> None:
    result = value_and_gradient(lambda r: clipped_surrogate(r, torch.tensor(advantage), 0.2), ratio)
    assert result == pytest.approx((objective, gradient))


@pytest.mark.parametrize(
    ("value", "loss", "gradient"),
    [
        (2.0, 6.25, 0.0),  # moved towards the target 3 by more than 0.5: the loss of 0.5, and no more gradient
        (-2.0, 25.0, -10.0),  # moved away from it: the true error counts
        (0.25, 2.75**2, -5.5),  # within the range: the plain squared error
    ],
)
def test_clipped_value_loss_known_answers(value: float, loss: float, gradient: float) -> None:
    old, target = torch.tensor(0.0), torch.tensor(3.0)
    result = value_and_gradient(lambda v: clipped_value_loss(v, old, target, 0.5), value)
    assert result == pytest.approx((loss, gradient))


def test_value_clipping_never_lowers_the_loss() -> None:
    value, old, target = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    plain = (value - target).square()
    clipped = clipped_value_loss(value, old, target, 0.3)
    assert (clipped >= plain).all()
    assert (clipped > plain).any()


def test_approx_kl_is_never_negative_and_zero_only_at_equality() -> None:
    # Down to differences that float32 would lose in exp(x) - 1 - x.
    log_ratio = torch.cat([sign * torch.logspace(-4, 1, 200) for sign in (-1, 1)])
    assert (approx_kl(log_ratio) > 0).all()
    assert approx_kl(torch.zeros(())).item() == 0
    torch.testing.assert_close(approx_kl(torch.tensor(2.0).log()), torch.tensor(1 - 0.693147), rtol=0, atol=1e-6)


def test_approx_kl_averages_to_the_kl() -> None:
    old, new = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.4, 0.4, 0.2])
    estimate = (old * approx_kl((new / old).log())).sum()
    torch.testing.assert_close(estimate, (old * (old / new).log()).sum())


def test_clip_fraction_counts_what_left_the_range() -> None:
    ratio = torch.tensor([0.7, 0.81, 1.0, 1.19, 1.21])
    assert clip_fraction(ratio, 0.2).tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]


def test_normalize_advantage_is_torch_mean_and_std_on_unit_weights() -> None:
    advantage = 3 + 5 * torch.randn(64, generator=torch.Generator().manual_seed(1))
    expected = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    torch.testing.assert_close(normalize_advantage(advantage, torch.ones(64)), expected)


def test_weighted_mean_known_answer() -> None:
    assert weighted_mean(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.0, 0.0, 3.0])).item() == 19 / 4


def test_rows_of_weight_zero_change_nothing() -> None:
    gen = torch.Generator().manual_seed(2)
    advantage, weight = torch.randn(40, generator=gen), (torch.rand(40, generator=gen) < 0.7).float()
    counts = weight.bool()
    other = torch.where(counts, advantage, 1e6)
    assert torch.equal(weighted_mean(advantage, weight), weighted_mean(other, weight))
    normalized = normalize_advantage(advantage, weight)
    assert torch.equal(normalized[counts], normalize_advantage(other, weight)[counts])
    alone = normalize_advantage(advantage[counts], torch.ones(int(counts.sum())))
    torch.testing.assert_close(normalized[counts], alone)


def test_rows_of_weight_zero_get_no_gradient() -> None:
    x = torch.randn(4, requires_grad=True)
    (gradient,) = torch.autograd.grad(weighted_mean(x.square(), torch.tensor([1.0, 0.0, 1.0, 0.0])), x)
    torch.testing.assert_close(gradient, x.detach() * torch.tensor([1.0, 0.0, 1.0, 0.0]))


def test_a_batch_without_weight_has_mean_and_gradient_zero() -> None:
    # A minibatch may hold nothing but rows in which the backend only reset its environments.
    x = torch.randn(4, requires_grad=True)
    mean = weighted_mean(x, torch.zeros(4))
    (gradient,) = torch.autograd.grad(mean, x)
    assert mean.item() == 0
    assert torch.equal(gradient, torch.zeros(4))


def test_a_single_row_normalises_to_zero() -> None:
    advantage, weight = torch.tensor([5.0, 7.0]), torch.tensor([1.0, 0.0])
    assert normalize_advantage(advantage, weight)[0].item() == 0


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ((1.0, 2.0, 3.0, 4.0), 1.0),
        ((6.0, 7.0, 8.0, 9.0), 1.0),  # a constant offset is not variance
        ((0.0, 0.0, 0.0, 0.0), 0.0),
        ((4.0, 3.0, 2.0, 1.0), -3.0),  # the residual is twice the target, centred
        ((0.5, 1.0, 1.5, 2.0), 0.75),
    ],
)
def test_explained_variance_known_answers(prediction: tuple[float, ...], expected: float) -> None:
    target = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(torch.tensor(prediction), target, torch.ones_like(target)).item() == pytest.approx(
        expected
    )


def test_explained_variance_of_a_constant_target_is_finite() -> None:
    assert explained_variance(torch.full((3,), 2.0), torch.full((3,), 5.0), torch.ones(3)).item() == 1


def test_rows_of_weight_zero_do_not_count_in_explained_variance() -> None:
    prediction, target = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 4.0, -9.0])
    expected = explained_variance(prediction[:2], target[:2], torch.ones(2))
    assert explained_variance(prediction, target, torch.tensor([1.0, 1.0, 0.0])) == expected
