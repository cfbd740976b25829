import math
from itertools import product

import pytest
import torch
from torch import Tensor

from rl_training.functional import (
    conservative_gap,
    importance_weights,
    project_distribution,
    quantile_huber,
    regression_loss,
)
from rl_training.functional.value_losses import spread_by_distance, spread_by_index

ATOMS = torch.linspace(-10, 10, 51)


def distributions(num: int, *, seed: int = 0, num_atoms: int = 51) -> Tensor:
    gen = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(num, num_atoms, generator=gen, dtype=torch.float64)).softmax(-1)


def projected_by_loop(probs: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Algorithm 1 of arXiv:1707.06887 as written there, with the case l == u that it forgets."""
    spacing = ((atoms[-1] - atoms[0]) / (len(atoms) - 1)).item()
    result = torch.zeros_like(probs)
    for row, atom in product(range(len(probs)), range(len(atoms))):
        moved = reward[row].item() + discount[row].item() * atoms[atom].item()
        place = (min(max(moved, atoms[0].item()), atoms[-1].item()) - atoms[0].item()) / spacing
        low, high = math.floor(place), math.ceil(place)
        if low == high:
            result[row, low] += probs[row, atom]
        else:
            result[row, low] += probs[row, atom] * (high - place)
            result[row, high] += probs[row, atom] * (place - low)
    return result


@pytest.mark.parametrize("num_atoms", [2, 11, 51])
def test_projection_equals_the_loop_of_the_paper(num_atoms: int) -> None:
    gen = torch.Generator().manual_seed(num_atoms)
    probs, atoms = distributions(20, num_atoms=num_atoms), torch.linspace(-10, 10, num_atoms, dtype=torch.float64)
    reward = 8 * torch.randn(20, generator=gen, dtype=torch.float64)
    discount = torch.rand(20, generator=gen, dtype=torch.float64)
    discount[:4], reward[2:6] = 0.0, atoms[0] + 20 / (num_atoms - 1)  # terminal rows, and rewards on an atom
    projected = project_distribution(probs, atoms, reward, discount)
    torch.testing.assert_close(projected, projected_by_loop(probs, atoms, reward, discount), rtol=0, atol=1e-12)


def test_projection_keeps_mass_and_unclipped_mean() -> None:
    probs, reward = distributions(64).float(), torch.linspace(-1, 1, 64)
    discount = torch.linspace(0, 0.9, 64)  # |r + discount * z| <= 10: nothing is clipped
    projected = project_distribution(probs, ATOMS, reward, discount)
    torch.testing.assert_close(projected.sum(-1), torch.ones(64), rtol=0, atol=1e-5)
    expected = reward + discount * (probs * ATOMS).sum(-1)
    torch.testing.assert_close((projected * ATOMS).sum(-1), expected, rtol=0, atol=1e-4)
    clipped = project_distribution(probs, ATOMS, 50 * reward, discount)
    torch.testing.assert_close(clipped.sum(-1), torch.ones(64), rtol=0, atol=1e-5)
    assert (clipped >= 0).all()


@pytest.mark.parametrize(
    ("reward", "discount", "where"),
    [
        (0.4, 0.0, 0.4),
        (100.0, 0.0, 10.0),
        (100.0, 0.99, 10.0),
        (-100.0, 0.99, -10.0),
        (0.0, 0.0, 0.0),
        (10.0, 0.0, 10.0),
    ],
)
def test_projection_onto_one_atom(reward: float, discount: float, where: float) -> None:
    projected = project_distribution(
        distributions(1).float(), ATOMS, torch.tensor([reward]), torch.tensor([discount])
    ).squeeze(0)
    wanted = torch.zeros(51)
    wanted[round((where + 10) / 0.4)] = 1.0
    torch.testing.assert_close(projected, wanted, rtol=0, atol=1e-5)


def test_projection_without_change_is_the_identity() -> None:
    probs = distributions(8).float()
    projected = project_distribution(probs, ATOMS, torch.zeros(8), torch.ones(8))
    torch.testing.assert_close(projected, probs, rtol=0, atol=1e-5)


def huber(error: float, kappa: float) -> float:
    if kappa == 0:
        return abs(error)
    return (0.5 * error**2 if abs(error) <= kappa else kappa * (abs(error) - 0.5 * kappa)) / kappa


def quantile_loss_by_loop(current: list[float], fractions: list[float], target: list[float], kappa: float) -> float:
    total = 0.0
    for value, fraction in zip(current, fractions, strict=True):
        rows = [abs(fraction - (t - value < 0)) * huber(t - value, kappa) for t in target]
        total += sum(rows) / len(rows)
    return total


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("num_targets", [3, 5])
def test_quantile_huber_equals_the_sum_over_pairs(kappa: float, num_targets: int) -> None:
    gen = torch.Generator().manual_seed(0)
    current, fractions = torch.randn(6, 3, generator=gen), torch.rand(6, 3, generator=gen)
    target = torch.randn(6, num_targets, generator=gen)
    loss = quantile_huber(current, fractions, target, kappa)
    expected = [
        quantile_loss_by_loop(c.tolist(), f.tolist(), t.tolist(), kappa)
        for c, f, t in zip(current, fractions, target, strict=True)
    ]
    torch.testing.assert_close(loss, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_the_fraction_is_that_of_the_current_quantile() -> None:
    current, fractions, target = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.1, 0.9]]), torch.tensor([[2.0, -1.0]])
    # tau 0.1: (0.1 * 2 + 0.9 * 1) / 2; tau 0.9: (0.9 * 2 + 0.1 * 1) / 2. A transposed pair matrix would weight every 2 by
    # 0.1 and every -1 by 1 - 0.9, which is 0.3 in all.
    assert quantile_huber(current, fractions, target, 0.0).item() == pytest.approx(1.5)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_quantile_huber_is_asymmetric(kappa: float) -> None:
    current, fraction = torch.zeros(1, 1, requires_grad=True), torch.tensor([[0.9]])
    for target, weight in ((3.0, 0.9), (-3.0, 0.1)):  # above: tau; below: 1 - tau
        loss = quantile_huber(current, fraction, torch.tensor([[target]]), kappa)
        assert loss.item() == pytest.approx(weight * (3.0 - kappa / 2))
        (gradient,) = torch.autograd.grad(loss.sum(), current)
        assert gradient.item() == pytest.approx(-weight * math.copysign(1.0, target))


def test_quantile_regression_finds_the_quantiles_of_the_uniform_distribution() -> None:
    num = 8
    midpoints = (torch.arange(num) + 0.5) / num
    target = ((torch.arange(1000) + 0.5) / 1000).unsqueeze(0)
    quantiles = torch.zeros(1, num, requires_grad=True)
    for step in range(400):
        (gradient,) = torch.autograd.grad(quantile_huber(quantiles, midpoints, target, 0.0).sum(), quantiles)
        quantiles = (quantiles - 0.5 * 0.99**step * gradient).detach().requires_grad_()
    torch.testing.assert_close(quantiles[0].detach(), midpoints, rtol=0, atol=5e-3)


@pytest.mark.parametrize(
    ("kind", "error", "loss", "gradient"),
    [("huber", 0.5, 0.125, 0.5), ("huber", -3.0, 2.5, -1.0), ("mse", 0.5, 0.25, 1.0), ("mse", -3.0, 9.0, -6.0)],
)
def test_regression_loss_known_answers(kind: str, error: float, loss: float, gradient: float) -> None:
    current = torch.tensor([2.0 + error], requires_grad=True)
    result = regression_loss(current, torch.tensor([2.0]), kind)
    assert result.shape == (1,)
    assert result.item() == pytest.approx(loss)
    assert torch.autograd.grad(result.sum(), current)[0].item() == pytest.approx(gradient)


def test_importance_weights_known_answer() -> None:
    probability = torch.tensor([1.0, 2.0, 3.0, 4.0]) ** 0.6
    probability = probability / probability.sum()
    torch.testing.assert_close(probability, torch.tensor([0.1482, 0.2247, 0.2866, 0.3405]), rtol=0, atol=1e-4)
    weight = importance_weights(probability, 0.4)
    torch.testing.assert_close(weight, torch.tensor([1.0, 0.8467, 0.7682, 0.7170]), rtol=0, atol=1e-3)
    torch.testing.assert_close(importance_weights(probability, 0.0), torch.ones(4))
    full = importance_weights(probability, torch.tensor(1.0))
    torch.testing.assert_close(full * probability / probability[0], torch.ones(4))  # beta 1 undoes the sampling


def test_the_two_ways_to_spread_mass_agree() -> None:
    gen = torch.Generator().manual_seed(5)
    mass = distributions(20, seed=5)
    place = 50 * torch.rand(20, 51, generator=gen, dtype=torch.float64)
    place[0], place[1], place[2] = 50.0, 0.0, place[2].round()
    torch.testing.assert_close(spread_by_index(mass, place), spread_by_distance(mass, place))


@pytest.mark.parametrize(
    ("q", "action", "gap"),
    [((0.0, 0.0), 1, 0.693147), ((2.0, 0.0), 0, 0.126928), ((2.0, 0.0), 1, 2.126928), ((7.0,), 0, 0.0)],
)
def test_conservative_gap(q: tuple[float, ...], action: int, gap: float) -> None:
    found = conservative_gap(torch.tensor([q, q]), torch.tensor([action, action]))
    torch.testing.assert_close(found, torch.full((2,), gap), rtol=0, atol=1e-6)


def test_the_conservative_gap_lowers_likely_actions_and_raises_the_one_taken() -> None:
    q = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    action = torch.tensor([0, 3, 1, 1, 2])
    (gradient,) = torch.autograd.grad(conservative_gap(q, action).sum(), q)
    torch.testing.assert_close(gradient, q.softmax(-1) - torch.nn.functional.one_hot(action, 4))


def test_the_conservative_gap_ignores_forbidden_actions_and_a_common_shift() -> None:
    q, action = torch.tensor([[2.0, 0.0, -torch.inf]]), torch.tensor([0])
    assert conservative_gap(q, action).item() == pytest.approx(0.126928, abs=1e-6)
    assert conservative_gap(q + 300, action).item() == pytest.approx(0.126928, abs=1e-4)
