import math

import pytest
import torch
from torch import Tensor, distributions

from rl_training.functional import Bernoulli, Categorical, DiagGaussian, MultiCategorical

LOGITS = torch.tensor([[0.3, -1.2, 2.0, 0.0], [5.0, 5.0, -5.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
MASK = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 0]])


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    expected = probabilities * counts.sum()
    return ((counts - expected).square() / expected).sum().item()


def test_categorical_equals_torch() -> None:
    ours, theirs = Categorical.from_logits(LOGITS), distributions.Categorical(logits=LOGITS)
    for action in range(4):
        column = torch.full((3,), action)
        torch.testing.assert_close(ours.log_prob(column), theirs.log_prob(column))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert ours.mode().tolist() == [2, 0, 0]


def test_categorical_mask_gives_probability_zero_and_renormalises() -> None:
    masked = Categorical.from_logits(LOGITS, MASK)
    probabilities = masked.log_probs.exp()
    assert torch.equal(probabilities[MASK == 0], torch.zeros(6))
    allowed = distributions.Categorical(logits=LOGITS[0, [0, 2, 3]])
    torch.testing.assert_close(probabilities[0, [0, 2, 3]], allowed.probs)
    torch.testing.assert_close(masked.entropy()[0], allowed.entropy())
    assert masked.entropy()[2].item() == 0  # one action left
    assert masked.mode().tolist() == [2, 3, 1]


def test_categorical_mask_has_finite_gradients_and_none_for_the_masked() -> None:
    logits = LOGITS.clone().requires_grad_()
    masked = Categorical.from_logits(logits, MASK)
    loss = masked.entropy().sum() + masked.log_prob(torch.tensor([2, 3, 1])).sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(gradient).all()
    assert torch.equal(gradient[MASK == 0], torch.zeros(6))
    assert (gradient[0, [0, 2, 3]] != 0).all()


def test_categorical_sampling_follows_the_probabilities() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.5, -1.0, 1.5, 0.0])
    samples = Categorical.from_logits(logits.expand(20_000, 4)).sample()
    counts = torch.bincount(samples, minlength=4).float()
    assert chi_square(counts, logits.softmax(-1)) < 16.3  # 0.999 quantile with 3 degrees of freedom


def test_categorical_never_samples_the_masked() -> None:
    torch.manual_seed(1)
    samples = Categorical.from_logits(LOGITS[1].expand(20_000, 4), MASK[1].expand(20_000, 4)).sample()
    counts = torch.bincount(samples, minlength=4).float()
    assert counts[:2].tolist() == [0, 0]  # although their logits are the largest
    assert chi_square(counts[2:], LOGITS[1, 2:].softmax(-1)) < 10.9  # 1 degree of freedom


def test_multi_categorical_is_the_sum_of_its_parts() -> None:
    logits, nums = torch.randn(5, 7, generator=torch.Generator().manual_seed(2)), (3, 4)
    ours = MultiCategorical.from_logits(logits, nums)
    parts = [distributions.Categorical(logits=part) for part in logits.split(nums, -1)]
    action = torch.tensor([[0, 3], [1, 2], [2, 1], [0, 0], [2, 3]])
    torch.testing.assert_close(ours.log_prob(action), sum(p.log_prob(action[:, i]) for i, p in enumerate(parts)))
    torch.testing.assert_close(ours.entropy(), sum(p.entropy() for p in parts))
    assert torch.equal(ours.mode(), torch.stack([part.argmax(-1) for part in logits.split(nums, -1)], -1))


def test_multi_categorical_masks_every_part_by_itself() -> None:
    torch.manual_seed(3)
    mask = torch.tensor([0, 1, 1, 1, 0])  # the first choice of three, and the second of two
    masked = MultiCategorical.from_logits(torch.zeros(10_000, 5), (3, 2), mask.expand(10_000, 5))
    samples = masked.sample()
    counts = torch.bincount(samples[:, 0], minlength=3).float()
    assert counts[0] == 0
    assert chi_square(counts[1:], torch.tensor([0.5, 0.5])) < 10.9
    assert (samples[:, 1] == 0).all()
    torch.testing.assert_close(masked.entropy()[0].item(), math.log(2))


def test_multi_categorical_parts_are_sampled_independently() -> None:
    torch.manual_seed(4)
    samples = MultiCategorical.from_logits(torch.zeros(20_000, 4), (2, 2)).sample()
    counts = torch.bincount(2 * samples[:, 0] + samples[:, 1], minlength=4).float()
    assert chi_square(counts, torch.full((4,), 0.25)) < 16.3


def test_bernoulli_equals_torch() -> None:
    logits = torch.tensor([[0.5, -2.0, 0.1], [30.0, -30.0, 0.0]])
    theirs = distributions.Independent(distributions.Bernoulli(logits=logits), 1)
    ours, action = Bernoulli(logits), torch.tensor([[1, 0, 0], [0, 1, 1]])
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action.float()))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert ours.mode().tolist() == [[1, 0, 1], [1, 0, 0]]


def test_bernoulli_sampling_follows_the_probabilities() -> None:
    torch.manual_seed(5)
    logits = torch.tensor([0.8, -1.5])
    samples = Bernoulli(logits.expand(20_000, 2)).sample()
    for bit, probability in enumerate(logits.sigmoid()):
        counts = torch.bincount(samples[:, bit], minlength=2).float()
        assert chi_square(counts, torch.stack([1 - probability, probability])) < 10.9


def test_gaussian_equals_torch() -> None:
    mean, log_std = torch.randn(6, 3, generator=torch.Generator().manual_seed(6)), torch.tensor([0.0, -1.3, 0.7])
    ours = DiagGaussian(mean, log_std)
    theirs = distributions.Independent(distributions.Normal(mean, log_std.exp().expand_as(mean)), 1)
    action = mean + 0.5
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), mean)


def test_gaussian_sampling_has_the_moments() -> None:
    torch.manual_seed(7)
    mean, log_std = torch.tensor([2.0, -1.0]), torch.tensor([0.5, -1.0])
    samples = DiagGaussian(mean.expand(40_000, 2), log_std).sample()
    error = (samples.mean(0) - mean).abs() / (log_std.exp() / 200)  # in standard errors
    assert (error < 3.5).all()
    assert samples.std(0).tolist() == pytest.approx(log_std.exp().tolist(), rel=0.02)
    assert abs(torch.corrcoef(samples.T)[0, 1].item()) < 0.02
