"""Log-probabilities of continuous actions as an environment carries them out, in its units.

A component inside its bounds has a density. One that was clipped to a bound has the probability of all draws beyond it.
Two policies are compared in the same measure this way, whether they clip, squash or draw uniformly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rl_training.core import Policy, Tree, UniformPolicy
from rl_training.core.converters import EDGE
from rl_training.core.policy import Memory
from rl_training.functional import DiagGaussian, SquashedGaussian
from rl_training.models.actors import ClippedGaussianPolicy, SquashedGaussianPolicy
from rl_training.models.policies import RecurrentPolicy, StochasticPolicy


def executed_log_prob(
    policy: Policy, obs: Tree, action: Tensor, memory: Memory = (), first: Tensor | None = None
) -> Tensor | None:
    """Returns the log-probability [batch] of Box actions as executed; None for policies without a distribution.

    Actions are in the policy's units, the result in the environment's. A component at a bound has the probability of all
    draws beyond it. Components beyond their bounds are draws that were logged before they were clipped: these have a density.
    """
    if isinstance(policy, UniformPolicy):
        return uniform_log_prob(policy, action)
    if isinstance(policy, RecurrentPolicy):
        distribution, _ = policy.advance(obs, memory, first)
    elif isinstance(policy, StochasticPolicy | SquashedGaussianPolicy | ClippedGaussianPolicy):
        distribution = policy.distribution(obs)
    else:
        return None
    assert isinstance(distribution, DiagGaussian | SquashedGaussian)
    mean, log_std = (part.double().expand(action.shape) for part in distribution)
    action, (low, high) = action.double(), (edge.double() for edge in policy.to_env.edges)
    cut_low, cut_high = (low, high) if isinstance(distribution, DiagGaussian) else (low.atanh(), high.atanh())
    below = torch.special.log_ndtr((cut_low - mean) * (-log_std).exp())
    above = torch.special.log_ndtr((mean - cut_high) * (-log_std).exp())
    single = type(distribution)(mean.unsqueeze(-1), log_std.unsqueeze(-1))  # a density for each component
    density = single.log_prob(action.unsqueeze(-1))
    at_low, at_high = at_bounds(policy, action)
    parts = torch.where(at_low, below, torch.where(at_high, above, density))
    return torch.where(at_low & at_high, 0.0, parts).sum(-1) - policy.to_env.log_volume(action)


def uniform_log_prob(policy: Policy, action: Tensor) -> Tensor:
    """Returns the log-probability per row, in the environment's units, of actions under uniform draws from [-1, 1]."""
    at_low, at_high = at_bounds(policy, action)
    return torch.where(at_low | at_high, math.log(EDGE / 2), -math.log(2)).sum(-1) - policy.to_env.log_volume(action)


def at_bounds(policy: Policy, action: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two bool masks like `action`, in the policy's units: components at the lower and the upper bound."""
    low, high = policy.to_env.edges
    lowest, highest = (-1.0, 1.0) if policy.squashed else (policy.to_env.low, policy.to_env.high)
    fixed = policy.to_env.span == 0
    return fixed | ((action <= low) & (action >= lowest)), fixed | ((action >= high) & (action <= highest))
