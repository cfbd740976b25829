import math

import pytest
import torch

from rl_training.functional import project_distribution, quantile_huber
from rl_training.models import CategoricalHead, MeanHead, QuantileHead
from rl_training.models.value_heads import FractionEmbedding

REWARD, DISCOUNT = torch.tensor([1.0, 2.0]), torch.tensor([0.9, 0.0])
UNUSED = torch.zeros(2)


@pytest.mark.parametrize(("kind", "losses"), [("huber", (4.1, 0.125)), ("mse", (4.6**2, 0.25))])
def test_mean_head_regresses_on_the_bootstrapped_reward(kind: str, losses: tuple[float, float]) -> None:
    head = MeanHead(kind)
    z, next_z = torch.tensor([[0.0], [1.5]]), torch.tensor([[4.0], [7.0]])  # targets 4.6 and, ended, 2
    loss = head.loss(z, UNUSED, next_z, REWARD, DISCOUNT)
    assert loss.tolist() == pytest.approx(losses, rel=1e-5)
    assert head.td_error(z, next_z, REWARD, DISCOUNT, loss).tolist() == pytest.approx([4.6, 0.5])
    assert head.mean(z).tolist() == [0.0, 1.5]


def test_categorical_head_means_over_its_atoms() -> None:
    head = CategoricalHead(3, -1.0, 3.0)
    assert head.atoms.tolist() == [-1.0, 1.0, 3.0]
    probs = torch.tensor([[[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]])
    torch.testing.assert_close(head.mean(probs.log()), torch.tensor([[0.5, 2.0]]))
    torch.testing.assert_close(head.mean(probs.log() + 7), torch.tensor([[0.5, 2.0]]))  # logits, not probabilities


def test_categorical_loss_is_the_cross_entropy_and_the_priority() -> None:
    head = CategoricalHead(11, -5.0, 5.0)
    z, next_z = torch.randn(2, 2, 11, generator=torch.Generator().manual_seed(0))
    loss = head.loss(z, UNUSED, next_z, REWARD, DISCOUNT)
    target = project_distribution(next_z.softmax(-1), head.atoms, REWARD, DISCOUNT)
    torch.testing.assert_close(loss, -(target * z.log_softmax(-1)).sum(-1))
    assert torch.equal(head.td_error(z, next_z, REWARD, DISCOUNT, loss), loss)
    # The second row has ended with reward 2: what is left is the log-probability of that atom.
    assert loss[1].item() == pytest.approx(-z[1].log_softmax(-1)[7].item(), abs=1e-5)


def test_categorical_loss_is_least_at_the_target() -> None:
    head = CategoricalHead(11, -5.0, 5.0)
    next_z = torch.randn(2, 11, generator=torch.Generator().manual_seed(1))
    z = project_distribution(next_z.softmax(-1), head.atoms, REWARD, torch.tensor([0.9, 0.5])).clamp(min=1e-30).log()
    z.requires_grad_()
    loss = head.loss(z, UNUSED, next_z, REWARD, torch.tensor([0.9, 0.5]))
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    torch.testing.assert_close(gradient, torch.zeros_like(z), rtol=0, atol=1e-5)


def test_quantile_head() -> None:
    head = QuantileHead(4, 0.5)
    assert head.midpoints.tolist() == [0.125, 0.375, 0.625, 0.875]
    z, next_z = torch.randn(2, 2, 4, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(head.mean(z), z.mean(-1))
    target = REWARD.unsqueeze(-1) + torch.stack([0.9 * next_z[0], torch.zeros(4)])
    loss = head.loss(z, head.midpoints, next_z, REWARD, DISCOUNT)
    torch.testing.assert_close(loss, quantile_huber(z, head.midpoints, target, 0.5))
    td_error = head.td_error(z, next_z, REWARD, DISCOUNT, loss)
    torch.testing.assert_close(td_error, (target.mean(-1) - z.mean(-1)).abs())


def test_fractions_are_embedded_by_cosines_from_zero() -> None:
    embedding = FractionEmbedding(features=5, num_cosines=3)
    fraction = torch.tensor([[0.3, 0.8]])
    cosines = torch.tensor([[[math.cos(math.pi * i * f) for i in range(3)] for f in (0.3, 0.8)]])
    expected = torch.relu(cosines @ embedding.layer.weight.T + embedding.layer.bias)
    torch.testing.assert_close(embedding(fraction), expected)
    assert embedding(fraction).shape == (1, 2, 5)
