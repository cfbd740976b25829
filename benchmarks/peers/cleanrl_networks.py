"""The networks of CleanRL's scripts, with the widths that are asked for."""

from itertools import pairwise

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical, Normal


def obs_size(envs: VectorEnv) -> int:
    shape = envs.single_observation_space.shape
    assert shape is not None
    return int(np.prod(shape))


def box(envs: VectorEnv) -> Box:
    space = envs.single_action_space
    assert isinstance(space, Box)
    return space


def mlp(*sizes: int) -> nn.Sequential:
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def tanh_network(inputs: int, outputs: int, std: float) -> nn.Sequential:
    def layer(a: int, b: int, gain: float = np.sqrt(2)) -> nn.Linear:
        linear = nn.Linear(a, b)
        nn.init.orthogonal_(linear.weight, gain)
        nn.init.constant_(linear.bias, 0.0)
        return linear

    return nn.Sequential(layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, std))


class ActorCritic(nn.Module):
    """The actor and critic of ppo.py and ppo_continuous_action.py."""

    def __init__(self, envs: VectorEnv) -> None:
        super().__init__()
        space, inputs = envs.single_action_space, obs_size(envs)
        self.discrete = isinstance(space, Discrete)
        outputs = int(space.n) if isinstance(space, Discrete) else int(np.prod(box(envs).shape))
        self.critic, self.actor = tanh_network(inputs, 1, 1.0), tanh_network(inputs, outputs, 0.01)
        self.log_std = nn.Parameter(torch.zeros(1, outputs))

    def act(self, obs: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        output = self.actor(obs)
        if self.discrete:
            chosen = Categorical(logits=output)
            action = chosen.sample() if action is None else action.long()
            return action, chosen.log_prob(action), chosen.entropy(), self.critic(obs)
        around = Normal(output, self.log_std.expand_as(output).exp())
        action = around.sample() if action is None else action
        return action, around.log_prob(action).sum(1), around.entropy().sum(1), self.critic(obs)


class Scaled(nn.Module):
    """Actions in the environment's units."""

    scale: Tensor
    bias: Tensor

    def __init__(self, envs: VectorEnv) -> None:
        super().__init__()
        low, high = (torch.tensor(bound) for bound in (box(envs).low, box(envs).high))
        self.register_buffer("scale", (high - low) / 2)
        self.register_buffer("bias", (high + low) / 2)


class SquashedActor(Scaled):
    """The actor of sac_continuous_action.py."""

    def __init__(self, envs: VectorEnv, widths: list[int]) -> None:
        super().__init__(envs)
        inputs, outputs = obs_size(envs), int(np.prod(box(envs).shape))
        self.body = nn.Sequential(mlp(inputs, *widths), nn.ReLU())
        self.mean, self.log_std = nn.Linear(widths[-1], outputs), nn.Linear(widths[-1], outputs)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(obs)
        log_std = -5 + 0.5 * 7 * (torch.tanh(self.log_std(hidden)) + 1)
        normal = Normal(self.mean(hidden), log_std.exp())
        before = normal.rsample()
        squashed = torch.tanh(before)
        log_prob = normal.log_prob(before) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale + self.bias, log_prob.sum(1, keepdim=True)


class DeterministicActor(Scaled):
    """The actor of td3_continuous_action.py."""

    def __init__(self, envs: VectorEnv, widths: list[int]) -> None:
        super().__init__(envs)
        inputs, outputs = obs_size(envs), int(np.prod(box(envs).shape))
        self.body = nn.Sequential(mlp(inputs, *widths, outputs), nn.Tanh())

    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs) * self.scale + self.bias
