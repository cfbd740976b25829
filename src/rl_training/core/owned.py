"""Memory that torch allocated: what networks are given, wherever the numbers came from."""

from __future__ import annotations

import torch
from torch import Tensor


def owned(x: Tensor) -> Tensor:
    """Copies a tensor into contiguous memory of torch's own.

    Matrix products may round differently for another alignment of the same numbers: on an AMD EPYC, MKL does so where
    rows begin off a multiple of 16 bytes, and its manual promises equal results for 64 only. Torch aligns to 64 bytes;
    numpy to 16, and a tensor in a file begins where the one before it ended. What a run computes must depend on the
    numbers alone, so observations and loaded state pass through here before a network sees them.
    """
    return x.clone(memory_format=torch.contiguous_format)
