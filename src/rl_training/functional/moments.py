"""Running mean and variance, updated batch by batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.core import ALONE, Ranks


class RunningMoments(NamedTuple):
    """The mean and (biased) variance, each of a row's shape, of the rows seen so far, and their number, 0-dim."""

    mean: Tensor
    var: Tensor
    count: Tensor


def merge_moments(old: RunningMoments, rows: Tensor, ranks: Ranks = ALONE) -> RunningMoments:
    """Returns the moments of the rows that `old` has seen and of new `rows` [row, ...], of all ranks together."""
    if ranks.number > 1:
        num, mean, var = moments_together(rows, old.mean, ranks)
        new = with_more(old, num, mean, var)  # not a number if nobody has seen a row yet
        return RunningMoments(*(torch.where(num > 0, x, before) for x, before in zip(new, old, strict=True)))
    if rows.shape[0] == 0:
        return old
    return with_more(old, rows.shape[0], rows.mean(0), rows.var(0, correction=0))


def with_more(old: RunningMoments, num: Tensor | int, mean: Tensor, var: Tensor) -> RunningMoments:
    """Returns the moments of the rows that `old` has seen and of `num` more with these moments; `num` is not 0."""
    total = old.count + num
    delta = mean - old.mean
    spread = old.var * old.count + var * num + delta.square() * old.count * num / total
    return RunningMoments(old.mean + delta * num / total, spread / total, total)


def moments_together(rows: Tensor, near: Tensor, ranks: Ranks) -> tuple[Tensor, Tensor, Tensor]:
    """Returns number, mean and variance of the rows [row, ...] of all ranks, by one message.

    Sums are taken of differences from `near`, which should be close to the mean, so that less is rounded.
    """
    off = rows - near
    num = near.new_full((1,), rows.shape[0])
    sums = ranks.sum(torch.cat([num, off.sum(0).reshape(-1), off.square().sum(0).reshape(-1)]))
    num = sums[0].clamp(min=1.0)
    first, second = (half.view_as(near) / num for half in sums[1:].chunk(2))
    return sums[0], near + first, (second - first.square()).clamp(min=0.0)
