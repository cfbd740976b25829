"""Returns over several steps, computed from stored rows: a replay's ring or a dataset's columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

TERMINATED, ENDED = 1, 2  # bits of a row's flags: no value after it; no further row of its episode


class NStepReturn(NamedTuple):
    """A discounted sum of up to n rewards; the n-step return adds `discount` times the value after row `last`."""

    reward: Tensor
    discount: Tensor  # 0 where terminated
    last: Tensor
    flags: Tensor  # of `last`


def n_step_return(
    reward: Tensor,
    flags: Tensor,
    row: Tensor,
    follow: Callable[[Tensor], Tensor],
    *,
    n: int,
    gamma: float,
    stop: Tensor | None = None,
) -> NStepReturn:
    """Returns the discounted sum of `n` rewards from each row number in `row` on.

    It has fewer at the end of an episode or before row `stop`. `reward` and `flags` (bits TERMINATED and ENDED) are
    whole columns, which row numbers index; `follow(rows)` returns the number of the row after each.
    """
    return n_step_walk(lambda row, _: (reward[row], flags[row]), row, follow, n=n, gamma=gamma, stop=stop)


def n_step_walk(
    read: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    row: Tensor,
    follow: Callable[[Tensor], Tensor],
    *,
    n: int,
    gamma: float,
    stop: Tensor | None = None,
) -> NStepReturn:
    """Returns the result of `n_step_return`, with a function in place of columns.

    `read(rows, step)` returns the rewards and flags of `rows`, which lie `step` steps after the first ones.
    """
    last = row
    total, seen = read(row, 0)
    discount = torch.ones_like(total) * gamma  # which may be a tensor, of a stack's members
    for step in range(1, n):
        after = follow(last)
        going = seen & ENDED == 0
        if stop is not None:
            going = going & (after != stop)
        last = torch.where(going, after, last)
        reward, flags = read(last, step)
        total = torch.where(going, total + discount * reward, total)
        discount = torch.where(going, discount * gamma, discount)
        seen = torch.where(going, flags, seen)
    return NStepReturn(total, torch.where(seen & TERMINATED != 0, 0.0, discount), last, seen)
