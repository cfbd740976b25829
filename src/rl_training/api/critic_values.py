"""Values of logged steps by an agent's own critics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.algorithms.discrete_sac import DiscreteSACAlgorithm
from rl_training.api.agent import Agent
from rl_training.api.data_source import check_fit, open_data
from rl_training.config import ConfigError
from rl_training.core import Algorithm, Transition, Tree, tree_map
from rl_training.data import Dataset
from rl_training.experience import ReplaySettings
from rl_training.experience.reward_units import RETURN_RANGE, RewardUnits
from rl_training.models import QPolicy

CHUNK = 8_192  # rows looked at together


class CriticValues(NamedTuple):
    """Values of every row by the agent's own critics, in the units of the environment's rewards."""

    action_values: np.ndarray  # of the actions taken
    state_values: np.ndarray
    td_errors: np.ndarray  # reward plus the discounted value of what followed, minus the action's value


def critic_values(agent: Agent, data: Dataset) -> CriticValues:
    """Returns the values of every row by the agent's own critics, with its own discount."""
    check_fit(data, agent.spec, agent.config.env.id)
    units = reward_units(agent)
    algorithm, gamma = agent.algorithm, float(agent.config.algorithm.gamma)
    device = next(algorithm.parameters()).device
    parts = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for start in range(0, len(data), CHUNK):
            steps = data.take(np.arange(start, min(start + CHUNK, len(data))))
            parts.append(values_of(algorithm, on_device(steps, device), units.scale, gamma).cpu())
    return CriticValues(*(torch.cat(parts, 1).double() / units.scale).numpy())


def values_of(algorithm: Algorithm, steps: Transition, scale: float, gamma: float) -> Tensor:
    """Returns [3, rows]: Q of the actions, V of the observations and TD errors, in the units of learning."""
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
    """Returns Q of actions in the policy's units, the smallest of several critics; None if there is no Q function."""
    if isinstance(algorithm, ContinuousAlgorithm):
        return algorithm.critics(algorithm.critic_view(obs), action, train=False).mean(-1).amin(0)
    if isinstance(algorithm, DiscreteSACAlgorithm):
        table = algorithm.q_values(algorithm.critics, obs).amin(0)
    elif isinstance(algorithm.policy, QPolicy):
        table = algorithm.policy.q_values(obs)
    else:
        return None
    return table.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def reward_units(agent: Agent) -> RewardUnits:
    """Returns the scale in which the agent learned rewards; refuses an agent that learned from shifted rewards."""
    experience, dataset = agent.config.experience, agent.dataset
    by_returns = isinstance(experience, ReplaySettings) and experience.reward_scale == RETURN_RANGE
    if by_returns and dataset is None:
        dataset = open_data(agent.config, trust=agent.trust)
    units = experience.rewards(dataset)
    if units.shift:
        raise ConfigError(
            f"{agent.config.name} learned from rewards that were shifted by {units.shift:g}, so that its own values are no returns: "
            "use criterion='fitted_q'"
        )
    return units


def on_device(steps: Transition, device: torch.device) -> Transition:
    return tree_map(lambda leaf: leaf.to(device), steps)  # pyrefly: ignore (a transition is a tree of tensors)
