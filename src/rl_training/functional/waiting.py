"""Advantages and n-step returns of agents that may wait: rewards between two actions count for the first of these."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.functional.returns import reverse_scan


class WaitingAdvantage(NamedTuple):
    """The advantages [time, agent] of an agent's actions, and a bool, True where they count."""

    advantage: Tensor
    counts: Tensor  # it acted, and what followed is known up to its next action or its end


def waiting_gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    acting: Tensor,
    next_acting: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> WaitingAdvantage:
    """Returns GAE advantages of agents that act only where `acting` is True; all arguments are [time, agent].

    A transition runs from an action to the agent's next action or its end. Its rewards are summed, and discounting
    counts transitions. `next_acting` is `acting` of the true successors. A transition that the end of the rollout cuts
    while the agent waits does not count, and the one before it ends with the value of its last action.
    """
    ended = terminated | truncated
    follows = next_acting.clone()  # by an action, in the next row
    follows[:-1] = acting[1:]
    follows &= ~ended
    waits = ~ended & ~follows
    waits[-1] = False
    # 1 where the transition through this row comes to its end
    finished = reverse_scan((ended | follows).to(reward.dtype), waits.to(reward.dtype))
    inside, following = torch.zeros_like(finished), torch.zeros_like(value)
    inside[:-1], following[:-1] = finished[1:], value[1:]
    decay = gamma * gae_lambda * inside * follows
    bootstrap = torch.where(~terminated & (follows | truncated), gamma * next_value, 0.0)
    target = reverse_scan(reward + bootstrap - decay * following, decay + waits)
    return WaitingAdvantage(target - value, acting & (finished > 0))


class OwnReturn(NamedTuple):
    """N-step returns [row, agent] over transitions of agents, and a bool, True where they count.

    The n-step return adds `discount` times the value of what the agent observes `steps` rows later.
    """

    reward: Tensor
    discount: Tensor  # 0 where terminated
    steps: Tensor
    counts: Tensor  # it acted in the first row, and what followed is known up to its next action or its end


def own_return(
    reward: Tensor, terminated: Tensor, ended: Tensor, acting: Tensor, stored: Tensor, *, n: int, gamma: float
) -> OwnReturn:
    """Returns the sum of the rewards of up to `n` transitions of every agent from the first of some rows on.

    Arguments are [time, row, agent]; `acting` has one more time, as it follows the last row. A transition runs from an
    action to the agent's next action or its end. Its rewards are summed, and discounting counts transitions. The sum
    stops before a transition that is not complete within the rows where `stored` is True, and at an agent's end.
    """
    ends = (ended & stored).long()
    going = stored & (ends.cumsum(0) == ends)  # before the agent's end, or in the row of it
    closes = ((ended | acting[1:]) & going).long()  # the transition through this row is over after it
    number = closes.cumsum(0) - closes  # of transitions before that of this row
    complete = closes.sum(0).clamp(max=n)
    inside = going & (number < complete)
    parts = discounted(torch.where(inside, reward, 0.0), number, n - 1, gamma)
    total = torch.zeros_like(reward[0])
    for part in parts.unbind():  # in this order, so that compiled code adds the same numbers
        total = total + part
    over = (inside & terminated).any(0)
    discount = discounted(torch.where(over, 0.0, torch.ones_like(total)), complete, n, gamma)
    return OwnReturn(total, discount, inside.sum(0), acting[0] & (complete > 0))


def discounted(x: Tensor, times: Tensor, most: int, gamma: float) -> Tensor:
    """Returns `x`, discounted as often as `times` says, which is at most `most`."""
    for time in range(1, most + 1):
        x = torch.where(times >= time, gamma * x, x)
    return x
