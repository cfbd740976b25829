"""Trees in a form for pipes: arrays replace tensors, whose memory torch would share and free with the sender."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class SentTensor(NamedTuple):
    """The values of a tensor as a numpy array, to be sent to another process."""

    values: np.ndarray


def wrap_tensors(value: Any) -> Any:
    """Returns a copy of nested dicts, lists and tuples with a `SentTensor` in place of every tensor (on the CPU)."""
    if isinstance(value, Tensor):
        return SentTensor(value.numpy())
    return mapped(wrap_tensors, value)


def unwrap_tensors(value: Any) -> Any:
    """Returns a copy of nested dicts, lists and tuples with a tensor, in its own memory, for every `SentTensor`."""
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
