"""Solving A x = b with products by A only."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], b: Tensor, num_steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Returns the vector x that solves A x = b approximately, after `num_steps` steps; `product(v)` returns A v.

    A must be symmetric and positive definite. Once the squared residual is at most `tolerance`, steps change nothing.
    """
    x, residual, direction = torch.zeros_like(b), b.clone(), b.clone()
    square = residual.dot(residual)
    for _ in range(num_steps):
        going = square > tolerance
        image = product(direction)
        step = torch.where(going, square / direction.dot(image), 0.0)
        x = x + step * direction
        residual = residual - step * image
        new_square = residual.dot(residual)
        direction = torch.where(going, residual + new_square / square * direction, direction)
        square = torch.where(going, new_square, square)
    return x
