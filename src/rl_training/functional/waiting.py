"""Advantages of agents that may wait: their rewards between two actions count for the first of these."""

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
