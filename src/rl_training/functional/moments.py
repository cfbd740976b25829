"""Moments of everything seen so far."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class RunningMoments(NamedTuple):
    """Mean, (biased) variance and count of everything seen so far."""

    mean: Tensor
    var: Tensor
    count: Tensor


def merge_moments(old: RunningMoments, rows: Tensor) -> RunningMoments:
    """Adds rows (first dimension) to running moments by Chan's parallel formula."""
    num = rows.shape[0]
    if num == 0:
        return old
    mean, var = rows.mean(0), rows.var(0, correction=0)
    total = old.count + num
    delta = mean - old.mean
    spread = old.var * old.count + var * num + delta.square() * old.count * num / total
    return RunningMoments(old.mean + delta * num / total, spread / total, total)
