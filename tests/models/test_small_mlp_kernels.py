"""The Triton kernels of small networks, run by Triton's interpreter on the CPU: their indices, masks and sums.

Rounding and speed are for a GPU. The interpreter knows no inline assembly, so tanh is that of float32.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import product

import pytest
import torch
from torch import Tensor

from rl_training.models.small_mlp import small_mlp, small_mlp_backward
from tests import needs

CASES = [
    ((4, 16, 32, 2), ("tanh", "float32", 1e-6)),
    ((17, 32, 16, 6), ("relu", "float32", 1e-6)),
    ((17, 32, 16, 6), ("relu", "tf32", 0.1)),  # rounding moves some units over zero, and with them their gradients
]


def test_interpreted_kernels_equal_the_definition() -> None:
    """In a process of its own: Triton decides when it is imported if it interprets."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip(needs.TRITON)
    code = f"from {__name__} import check_all; check_all()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TRITON_INTERPRET": "1"}, check=True)


def check_all() -> None:
    torch.manual_seed(0)
    for (sizes, kind), members in product(CASES, [(), (3,)]):
        check(sizes, kind, members, num_rows=71)
    check(*CASES[0], (1,), num_rows=71)
    check(*CASES[0], (3,), num_rows=1)


def check(
    sizes: tuple[int, int, int, int], kind: tuple[str, str, float], members: tuple[int, ...], num_rows: int
) -> None:
    from rl_training.models import small_mlp_kernels

    (inputs, hidden1, hidden2, outputs), (activation, products, rounding) = sizes, kind
    shapes = [(hidden1, inputs), (hidden1,), (hidden2, hidden1), (hidden2,), (outputs, hidden2), (outputs,)]
    parameters = [scattered(*members, *shape) / shape[-1] ** 0.5 for shape in shapes]
    x, grad = scattered(*members, num_rows, inputs), scattered(*members, num_rows, outputs)
    exact = [tensor.double() for tensor in (x, *parameters)]
    how = {"activation": activation, "products": products}
    out = small_mlp_kernels.forward(x, *parameters, **how, rows=32)
    assert_near(out, small_mlp(*exact, activation, products), rounding)
    for wants_x, programs in product((True, False), (1, 2)):
        partial, grad_x = small_mlp_kernels.backward(
            grad, x, *parameters, **how, wants_x=wants_x, programs=programs, rows=16
        )
        flat, expected = small_mlp_backward(grad.double(), *exact, activation, products, wants_x)
        assert partial.shape == (*members, programs, flat.shape[-1])
        assert_near(partial.sum(-2), flat.sum(-2), rounding)
        assert_near(grad_x, expected, rounding)


def scattered(*shape: int) -> Tensor:
    """Returns random numbers that do not lie side by side in memory."""
    return torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]


def assert_near(ours: Tensor, exact: Tensor, rounding: float) -> None:
    assert ours.shape == exact.shape
    assert ours.is_contiguous()
    error = float((ours - exact).norm())
    assert error <= rounding * exact.norm(), f"{error / exact.norm():.2g} of {tuple(ours.shape)}"
