"""How far apart two sets of samples are."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def squared_mmd(
    x: Tensor, y: Tensor, *, kernel: Literal["laplacian", "gaussian"], sigma: float, unbiased: bool = False
) -> Tensor:
    """The squared maximum mean discrepancy of [..., n, size] and [..., m, size] samples.

    Kernels are exp(-d / (2 sigma)), where d is the sum of absolute (laplacian) or squared (gaussian) differences. Pairs of a sample
    with itself count, which makes samples of the same distribution differ; `unbiased` leaves them out, and can be below 0.
    """
    both = torch.cat([x, y], -2)
    apart = both.unsqueeze(-2) - both.unsqueeze(-3)
    distance = apart.abs().sum(-1) if kernel == "laplacian" else apart.square().sum(-1)
    similar = (-distance / (2 * sigma)).exp()
    n = x.shape[-2]
    inside = within(similar[..., :n, :n], unbiased) + within(similar[..., n:, n:], unbiased)
    return inside - 2 * similar[..., :n, n:].mean((-2, -1))


def within(similar: Tensor, unbiased: bool) -> Tensor:
    """The mean over the pairs of one set of samples, where those of a sample with itself are 1."""
    n = similar.shape[-1]
    return (similar.sum((-2, -1)) - n) / (n * (n - 1)) if unbiased else similar.mean((-2, -1))
