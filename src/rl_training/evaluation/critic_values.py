"""Values of logged steps by the critics that an algorithm learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.algorithms.discrete_sac import DiscreteSACAlgorithm
from rl_training.core import Algorithm, Transition, Tree, tree_map
from rl_training.core.arguments import ConfigError
from rl_training.data import Dataset
from rl_training.evaluation.fqe_values import chunks
from rl_training.models import QPolicy


class CriticValues(NamedTuple):
    """Values [rows] of logged steps by an algorithm's own critics, in the units of the environment's rewards."""

    action_values: np.ndarray  # of the actions taken
    state_values: np.ndarray
    td_errors: np.ndarray  # reward plus the discounted value of what followed, minus the action's value


def critic_values(algorithm: Algorithm, data: Dataset, scale: float = 1.0) -> CriticValues:
    """Returns the values [rows] of a dataset's steps by the algorithm's critics, in units of the environment's rewards.

    The critics learned from rewards times `scale`. Raises ConfigError if the algorithm has no critics. The process's
    random numbers are restored.
    """
    device, gamma = next(algorithm.parameters()).device, float(algorithm.config.gamma)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        parts = [values_of(algorithm, on_device(steps, device), scale, gamma).cpu() for steps in chunks(data)]
    return CriticValues(*(torch.cat(parts, 1).double() / scale).numpy())


def values_of(algorithm: Algorithm, steps: Transition, scale: float, gamma: float) -> Tensor:
    """Returns [3, rows]: Q of the actions, V of the observations and TD errors, in units of rewards times `scale`.

    Raises ConfigError if the algorithm has no Q function.
    """
    action = algorithm.policy.to_env.inverse(steps.action)
    q = action_value(algorithm, steps.obs, action)
    if q is None:
        raise ConfigError(
            f"{type(algorithm).__name__.removesuffix('Algorithm')} has no critics of its own whose values could be compared: use "
            "criterion='fitted_q', which fits values to the data"
        )
    v, after = algorithm.values(steps.obs), algorithm.values(steps.next_obs)
    assert v is not None
    assert after is not None
    target = scale * steps.reward + gamma * torch.where(steps.terminated, 0.0, after)
    return torch.stack([q, v, target - q])


def action_value(algorithm: Algorithm, obs: Tree, action: Tensor) -> Tensor | None:
    """Returns [rows] Q of `obs` and `action`, the smallest of several critics; None if the algorithm has no Q function.

    Both have the rows first; actions are in the policy's units.
    """
    if isinstance(algorithm, ContinuousAlgorithm):
        return algorithm.critics(algorithm.critic_view(obs), action, train=False).mean(-1).amin(0)
    if isinstance(algorithm, DiscreteSACAlgorithm):
        table = algorithm.q_values(algorithm.critics, obs).amin(0)
    elif isinstance(algorithm.policy, QPolicy):
        table = algorithm.policy.q_values(obs)
    else:
        return None
    return table.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def on_device(steps: Transition, device: torch.device) -> Transition:
    return tree_map(lambda leaf: leaf.to(device), steps)  # pyrefly: ignore (a transition is a tree of tensors)
