"""Conjugate gradient against a direct solver."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from rl_training.functional import conjugate_gradient


def system(size: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """A random symmetric positive matrix with eigenvalues of at least 0.5, and a right-hand side."""
    gen = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, dtype=dtype, generator=gen) / size**0.5
    return root @ root.T + 0.5 * torch.eye(size, dtype=dtype), torch.randn(size, dtype=dtype, generator=gen)


@pytest.mark.parametrize("size", [1, 2, 10, 60])
@pytest.mark.parametrize("seed", range(5))
def test_solves_random_systems(size: int, seed: int) -> None:
    matrix, b = system(size, seed)
    x = conjugate_gradient(matrix.mv, b, size + 20, tolerance=1e-16)
    assert (matrix.mv(x) - b).norm() <= 1e-6
    torch.testing.assert_close(x, torch.linalg.solve(matrix, b), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_solves_in_float32_with_the_default_tolerance(seed: int) -> None:
    matrix, b = system(10, seed, torch.float32)
    assert (matrix.mv(conjugate_gradient(matrix.mv, b, 30)) - b).norm() <= 2e-5


def test_every_step_brings_it_nearer_in_the_norm_of_the_matrix() -> None:
    matrix, b = system(30, 0)
    solution = torch.linalg.solve(matrix, b)
    errors = [conjugate_gradient(matrix.mv, b, steps) - solution for steps in range(12)]
    sizes = [error.dot(matrix.mv(error)).item() for error in errors]
    assert all(later < earlier for earlier, later in pairwise(sizes))


def test_needs_as_many_steps_as_there_are_different_eigenvalues() -> None:
    diagonal = torch.tensor([2.0, 2.0, 5.0, 5.0, 5.0])
    b = torch.tensor([1.0, -1.0, 2.0, 0.5, 3.0])
    torch.testing.assert_close(conjugate_gradient(diagonal.mul, b, 2), b / diagonal)
    assert not torch.allclose(conjugate_gradient(diagonal.mul, b, 1), b / diagonal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_after_convergence_change_no_bit(dtype: torch.dtype) -> None:
    matrix, b = system(4, 1, dtype)
    done = conjugate_gradient(matrix.mv, b, 12)
    assert (matrix.mv(done) - b).square().sum() <= 1e-10
    assert torch.equal(conjugate_gradient(matrix.mv, b, 200), done)


def test_zero_gives_zero() -> None:
    matrix, b = system(6, 0)
    assert torch.equal(conjugate_gradient(matrix.mv, torch.zeros_like(b), 10), torch.zeros_like(b))


def test_numbers_that_are_not_finite_are_not_hidden() -> None:
    matrix, b = system(6, 0)
    b[2] = torch.nan
    assert not conjugate_gradient(matrix.mv, b, 10).isfinite().all()
