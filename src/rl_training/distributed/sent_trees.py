"""Trees in a form for pipes: arrays replace tensors, whose memory torch would share and free with the sender."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class SentTensor(NamedTuple):
    """A tensor in the form in which it is sent."""

    values: np.ndarray


def wrap_tensors(value: Any) -> Any:
    """Returns the tree with every tensor replaced by an array."""
    if isinstance(value, Tensor):
        return SentTensor(value.numpy())
    return mapped(wrap_tensors, value)


def unwrap_tensors(value: Any) -> Any:
    """Returns the tree with every sent array replaced by a tensor with its own memory."""
    if isinstance(value, SentTensor):
        return torch.tensor(value.values)
    return mapped(unwrap_tensors, value)


def mapped(function: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: function(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        entries = [function(entry) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    return value
