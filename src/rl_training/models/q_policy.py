"""Acting by Q-values: greedy, with epsilon, Boltzmann or parameter noise to explore."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rl_training.core import Act, Policy, Schedule, Scheduled, Spec, Tree
from rl_training.core.policy import Memory
from rl_training.functional import Categorical
from rl_training.models.encoders import encode_mask
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.q_networks import QNetwork


class QPolicy(Policy):
    """Takes the action with the highest expected return among those that are allowed.

    The log-probability is that of the action under the exploring policy; with noisy layers it is not known (NaN).
    """

    def __init__(
        self,
        spec: Spec,
        normalizer: ObservationNormalizer,
        network: QNetwork,
        *,
        exploration: Literal["epsilon", "boltzmann", "noisy"],
        epsilon: Schedule,
        temperature: Schedule,
        num_fractions: int = 0,
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.network = normalizer, network
        self.exploration, self.num_fractions = exploration, num_fractions
        self.epsilon, self.temperature = Scheduled(epsilon), Scheduled(temperature)

    def q_values(self, obs: Tree, *, noise: bool = False) -> Tensor:
        """The expected return of every action: [batch, action]."""
        seen = self.normalizer(obs) if self.normalizer.enabled else obs
        return self.network.head.mean(self.network(seen, self.midpoints(obs), noise=noise))

    def values(self, obs: Tree) -> Tensor:
        """The expected return of the best allowed action."""
        return forbid(self.q_values(obs), encode_mask(obs)).amax(-1)

    def midpoints(self, obs: Tree) -> Tensor | None:
        """Fixed fractions for acting: a mean over evenly spread quantiles, the same every time."""
        if not self.num_fractions:
            return None
        leaf = next(iter(obs.values())) if isinstance(obs, dict) else obs
        fractions = (torch.arange(self.num_fractions, device=leaf.device) + 0.5) / self.num_fractions
        return fractions.expand(leaf.shape[0], -1)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        mask = encode_mask(obs)
        q = forbid(self.q_values(obs, noise=explore), mask)
        greedy = q.argmax(-1)
        if not explore:
            return Act(greedy, torch.zeros_like(q[..., 0]), memory)
        if self.exploration == "epsilon":
            action, log_prob = epsilon_greedy(greedy, self.epsilon(), q.shape[-1], mask)
        elif self.exploration == "boltzmann":
            distribution = Categorical.from_logits(q / self.temperature(), mask)
            action = distribution.sample()
            log_prob = distribution.log_prob(action)
        else:
            action, log_prob = greedy, q[..., 0]
        return Act(action, torch.full_like(log_prob, torch.nan) if self.network.noisy else log_prob, memory)


def forbid(q: Tensor, mask: Tensor | None) -> Tensor:
    """Puts actions that are not allowed below all others."""
    return q if mask is None else q.masked_fill(~mask.bool(), -torch.inf)


def epsilon_greedy(greedy: Tensor, epsilon: Tensor, num: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """With probability epsilon any of `num` actions that is allowed, else the greedy one; and the log-probability."""
    chance, pick = torch.rand(2, *greedy.shape, device=greedy.device)
    if mask is None:
        random, share = (pick * num).long(), epsilon / num
    else:
        allowed = mask.bool()
        share = epsilon / allowed.sum(-1)
        random = (allowed + torch.rand(mask.shape, device=greedy.device)).argmax(-1)
    action = torch.where(chance < epsilon, random, greedy)
    return action, (share + (1 - epsilon) * (action == greedy)).log()
