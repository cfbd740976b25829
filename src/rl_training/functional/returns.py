"""Discounted sums along time. All of them are one linear recurrence, computed in log2(T) passes instead of T steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def reverse_scan(value: Tensor, decay: Tensor) -> Tensor:
    """Returns x with x[t] = value[t] + decay[t] * x[t + 1], where all are [T, ...] and x[T] counts as 0."""
    shift = 1
    while shift < value.shape[0]:  # pointer doubling: each pass joins windows of twice the length
        later, later_decay = torch.zeros_like(value), torch.zeros_like(decay)
        later[:-shift], later_decay[:-shift] = value[shift:], decay[shift:]
        value = value + decay * later
        decay = decay * later_decay
        shift *= 2
    return value


def discounted_returns(reward: Tensor, last: Tensor, first: Tensor, gamma: float) -> Tensor:
    """Returns sums R[t] = gamma * R[t - 1] + reward[t], [time, env], which start again from 0 where `first` is True.

    `reward` and the bools `first` are [time, env]; `last` [env] is R before the first time step.
    """
    decay = gamma * (~first).to(reward.dtype)
    value = reward.clone()
    value[0] += decay[0] * last
    return reverse_scan(value.flip(0), decay.flip(0)).flip(0)


def lambda_returns(
    reward: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, *, gamma: float, lam: float
) -> Tensor:
    """Returns lambda-returns [time, env] for arguments of that shape, the last two of them bools.

    At truncation and in the last row they add `next_value`, discounted; at termination they add nothing.
    """
    going = (~(terminated | truncated)).to(reward.dtype)
    going[-1] = 0.0
    bootstrap = torch.where(terminated, 0.0, gamma * next_value)  # not a product: after the end there may be no value
    return reverse_scan(reward + (1 - lam * going) * bootstrap, gamma * lam * going)


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Returns GAE advantages [time, env] (arXiv:1506.02438) for arguments of that shape, the last two of them bools.

    `next_value` is that of the true next observation: it counts at truncation, and not at termination.
    """
    delta = reward + gamma * next_value * (~terminated).to(reward.dtype) - value
    decay = gamma * gae_lambda * (~(terminated | truncated)).to(reward.dtype)
    return reverse_scan(delta, decay)


class VTrace(NamedTuple):
    """The V-trace estimates [time, env] of a rollout: value targets, advantages, and clipped importance weights `rho`.

    The policy gradient is that of rho * advantage * log_prob.
    """

    target: Tensor  # for the value
    advantage: Tensor  # of the action, once it is taken
    rho: Tensor  # how much likelier the action is by this policy, clipped


def v_trace(
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float,
    lam: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """Returns V-trace estimates [time, env] (arXiv:1802.01561, eq. 1) for tensors of that shape.

    `log_ratio` is log(probability by the policy to evaluate / probability by the policy that acted). Where it is 0, the
    targets are lambda-returns and the advantages generalized ones; with lam 1 the advantages are the paper's.
    `next_value` counts at truncation, and not at termination.
    """
    ratio = log_ratio.exp()
    rho, c = ratio.clamp(max=rho_bar), lam * ratio.clamp(max=c_bar)
    going = gamma * (~(terminated | truncated)).to(reward.dtype)
    delta = reward + gamma * next_value * (~terminated).to(reward.dtype) - value
    correction = reverse_scan(rho * delta, going * c)
    later = torch.zeros_like(correction)
    later[:-1] = correction[1:]
    return VTrace(value + correction, delta + going * lam * later, rho)
