"""Running moments and goodness of fit."""

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


def explained_variance(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """1 - Var[target - prediction] / Var[target] over the rows that count: 1 is perfect, 0 no better than the mean."""
    return 1 - weighted_variance(target - prediction, weight) / weighted_variance(target, weight).clamp(min=1e-12)


def weighted_variance(x: Tensor, weight: Tensor) -> Tensor:
    total = weight.sum().clamp(min=1e-12)
    mean = (x * weight).sum() / total
    return ((x - mean).square() * weight).sum() / total
