"""Distances between two sets of samples."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def squared_mmd(x: Tensor, y: Tensor, *, kernel: Literal["laplacian", "gaussian"], sigma: float) -> Tensor:
    """Returns the (biased) squared maximum mean discrepancy [...] of samples [..., n, size] and [..., m, size].

    Kernels are exp(-d / (2 sigma)), where d is the sum of absolute (laplacian) or squared (gaussian) differences.
    """
    both = torch.cat([x, y], -2)
    apart = both.unsqueeze(-2) - both.unsqueeze(-3)
    distance = apart.abs().sum(-1) if kernel == "laplacian" else apart.square().sum(-1)
    similar = (-distance / (2 * sigma)).exp()
    n = x.shape[-2]
    inside = similar[..., :n, :n].mean((-2, -1)) + similar[..., n:, n:].mean((-2, -1))
    return inside - 2 * similar[..., :n, n:].mean((-2, -1))
