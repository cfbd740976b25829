"""The maximum mean discrepancy: known answers."""

import math

import pytest
import torch

from rl_training.functional import squared_mmd

KERNELS = ("laplacian", "gaussian")


@pytest.mark.parametrize("kernel", KERNELS)
def test_of_the_same_samples_it_is_zero_in_any_order(kernel: str) -> None:
    x = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
    found = squared_mmd(x, x.flip(1), kernel=kernel, sigma=20.0)
    torch.testing.assert_close(found, torch.zeros(5), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_of_points_that_are_one_apart(kernel: str) -> None:
    x, y = torch.zeros(1, 4, 1), torch.ones(1, 4, 1)
    expected = 2 - 2 * math.exp(-1 / 40)
    assert expected == pytest.approx(0.049380, abs=1e-6)
    assert squared_mmd(x, y, kernel=kernel, sigma=20.0).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_sum_over_all_pairs(kernel: str) -> None:
    gen = torch.Generator().manual_seed(0)
    x, y = torch.randn(3, 2, generator=gen).double(), torch.randn(5, 2, generator=gen).double()

    def similar(a: torch.Tensor, b: torch.Tensor) -> float:
        apart = (a - b).abs().sum() if kernel == "laplacian" else (a - b).square().sum()
        return math.exp(-apart.item() / (2 * 1.5))

    pairs = {(p, q): [similar(a, b) for a in p for b in q] for p, q in ((x, x), (y, y), (x, y))}
    xx, yy, xy = (sum(values) / len(values) for values in pairs.values())
    assert squared_mmd(x, y, kernel=kernel, sigma=1.5).item() == pytest.approx(xx + yy - 2 * xy, abs=1e-9)
