"""Policies that choose the best of several actions by the first critic.

To explore, they draw new random numbers; otherwise they use the same ones every time, so that they are deterministic.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rl_training.core import Act, Policy, Spec, Tree, tree_leaves
from rl_training.core.policy import Memory, Preference
from rl_training.models.actors import Actor, SquashedGaussianPolicy
from rl_training.models.ensembles import Critics
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.vae import ActionVAE, Perturbation


class ProposalPolicy(Policy):
    """A policy that takes the best, by the first critic, of several actions that a model of the data proposes."""

    squashed = True
    latents: Tensor

    def __init__(
        self,
        spec: Spec,
        normalizer: ObservationNormalizer,
        vae: ActionVAE,
        perturbation: Perturbation,
        critics: Critics,
        num_actions: int,
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.vae, self.perturbation, self.critics = normalizer, vae, perturbation, critics
        self.num_actions = num_actions
        self.register_buffer("latents", vae.draw_latents(1, num_actions))

    def propose(self, obs: Tree, latents: Tensor, perturbation: Perturbation | None = None) -> Tensor:
        """Returns actions [batch, several, size], decoded from latents [batch, several, latent size] and moved.

        `perturbation` moves them instead of the policy's own if given; `obs` [batch, ...] is normalised already.
        """
        return (perturbation or self.perturbation)(obs, torch.tanh(self.vae.propose(obs, latents)))

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        seen = self.normalizer(obs)
        rows = next(tree_leaves(seen)).shape[0]
        latents = self.vae.draw_latents(rows, self.num_actions) if explore else self.latents.expand(rows, -1, -1)
        action = self.propose(seen, latents)
        return Act(*best_of(self.critics, seen, action), memory)


class BestOfPolicy(SquashedGaussianPolicy):
    """A tanh-Gaussian policy that explores by one draw, and otherwise takes the best of `num_actions` draws.

    The best is the action that the first of the critics given to `ask` values most. Except to explore, draws use
    the same noise in every call.
    """

    critics: Critics
    noise: Tensor

    def __init__(
        self, spec: Spec, normalizer: ObservationNormalizer, network: Actor, num_actions: int, action_size: int
    ) -> None:
        super().__init__(spec, normalizer, network)
        self.register_buffer("noise", torch.randn(1, num_actions, action_size))

    def ask(self, critics: Critics) -> None:
        """Sets the critics by which `act` chooses without exploration; must be called before it does."""
        self.critics = critics

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        if explore:
            return super().act(obs, memory, first)
        action = self.prefer(obs).action
        return Act(action, torch.full_like(action[:, 0], math.nan), memory)  # how likely the best is, is not known

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        distribution = self.distribution(obs)
        spread = distribution.log_std.exp().unsqueeze(1) * self.noise
        action = torch.tanh(distribution.mean.unsqueeze(1) + spread)
        return Preference(best_of(self.critics, self.normalizer(obs), action)[0], memory, distribution)


def best_of(critics: Critics, obs: Tree, action: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each row's best action [batch, size], by the first critic, of actions [batch, several, size], and NaN.

    NaN [batch] stands for the log-probabilities, which are not known. `obs` is normalised already.
    """
    q = critics.of_several(obs, action, slice(1), train=False)
    best = q.flatten(2).squeeze(0).argmax(-1)
    chosen = action[
        torch.arange(best.shape[0], device=best.device), best
    ]  # a length would become a constant of a graph
    return chosen, torch.full_like(chosen[:, 0], math.nan)
