"""Trust Region Policy Optimization (Schulman et al., 2015, arXiv:1502.05477)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.core import Adam, Loss, Metrics, Needs, Pass, RolloutBatch, Schedule, Step, Supply, register
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, PositiveShare
from rl_training.functional import Distribution, conjugate_gradient, detach, kl_divergence, weighted_mean


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(OnPolicyConfig):
    """TRPO's settings, with sb3-contrib's names and defaults."""

    needs = Needs("rollout", {"n_steps": 2048})

    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)  # of the value function
    batch_size: Count = 128  # of the value function
    n_critic_updates: Count = 10  # epochs of the value function
    target_kl: Positive = 0.01  # no step goes further than this
    cg_max_steps: Count = 15
    cg_damping: NonNegative = 0.1
    line_search_max_iter: Count = 10
    line_search_shrinking_factor: PositiveShare = 0.8

    def check(self, supply: Supply) -> None:
        supply.check_batch_size(self.batch_size)


class TRPOAlgorithm(OnPolicyAlgorithm[TRPOConfig]):
    """TRPO: one natural-gradient step of the policy per rollout within the trust region, then value epochs."""

    why_not_stacked = "searches for the length of its steps by tries, whose number differs between members"

    def build_optimizers(self, policy: list[nn.Parameter], value: list[nn.Parameter]) -> None:
        self.policy_parameters = policy
        self.optimizers["value"] = Adam([(value, self.config.learning_rate)])

    def passes(self) -> tuple[Pass, ...]:
        c = self.config
        return (
            Pass(1, None, method="update_policy", one_graph=False),
            Pass(c.n_critic_updates, c.batch_size, method="update"),
        )

    def update(self, batch: RolloutBatch) -> Step:
        """Takes one optimization step of the value function on a batch; leaves the policy alone."""
        return self.minimize(self.critic_loss, batch, "value")

    def critic_loss(self, batch: RolloutBatch) -> Loss:
        loss = self.value_loss(self.batch_value(batch), batch)
        return Loss(loss, {"value_loss": loss.detach()})

    def update_policy(self, batch: RolloutBatch) -> Step:
        """Moves the policy by the first step of a line search that improves the objective within the trust region."""
        c = self.config
        advantage = self.batch_advantage(batch)
        distribution = self.batch_distribution(batch)
        old = detach(distribution)
        objective = self.objective(distribution, batch, advantage)
        gradient = self.ranks.mean(flat_gradient(objective, self.policy_parameters), batch.weight)
        divergence = weighted_mean(kl_divergence(old, distribution), batch.weight)
        product = self.fisher_product(divergence, batch.weight)
        direction = conjugate_gradient(product, gradient, c.cg_max_steps)
        length = (2 * c.target_kl / direction.dot(product(direction)).clamp(min=1e-12)).sqrt()
        before = self.ranks.mean(objective.detach(), batch.weight)
        return Step(self.line_search(batch, advantage, old, before, length * direction))

    def objective(self, distribution: Distribution, batch: RolloutBatch, advantage: Tensor) -> Tensor:
        ratio = (distribution.log_prob(batch.action) - batch.log_prob).exp()
        return weighted_mean(ratio * advantage, batch.weight)

    def fisher_product(self, divergence: Tensor, weight: Tensor) -> Callable[[Tensor], Tensor]:
        """Returns a function that multiplies a flat vector by the damped Fisher matrix, the divergence's Hessian."""
        slope = flat_gradient(divergence, self.policy_parameters, create_graph=True)

        def product(vector: Tensor) -> Tensor:
            curved = self.ranks.mean(flat_gradient(slope.dot(vector), self.policy_parameters), weight)
            return curved + self.config.cg_damping * vector

        return product

    @torch.no_grad()
    def line_search(
        self, batch: RolloutBatch, advantage: Tensor, old: Distribution, before: Tensor, step: Tensor
    ) -> Metrics:
        """Moves the policy by the first of ever shorter steps that improves within the trust region, or not at all.

        All steps are evaluated and one is selected by tensor code, so nothing waits for the device. Sets `failed` and `stop`
        if `step` is not finite. Returns metrics.
        """
        c = self.config
        start = flatten(self.policy_parameters)
        chosen, found = start, torch.zeros_like(self.stop)
        best, best_kl = before.clone(), torch.zeros_like(before)
        for power in range(c.line_search_max_iter):
            candidate = start + c.line_search_shrinking_factor**power * step
            self.set_policy(candidate)
            distribution = self.batch_distribution(batch)
            objective = self.objective(distribution, batch, advantage)
            divergence = weighted_mean(kl_divergence(old, distribution), batch.weight)
            objective, divergence = self.ranks.means([objective, divergence], batch.weight)
            accepted = (objective > before) & (divergence <= c.target_kl) & ~found
            chosen = torch.where(accepted, candidate, chosen)
            best, best_kl = torch.where(accepted, objective, best), torch.where(accepted, divergence, best_kl)
            found = found | accepted
        finite = torch.isfinite(step).all()
        self.failed.logical_or_(~finite)
        self.stop.logical_or_(~finite)
        self.set_policy(chosen)
        return {"policy_objective": best, "kl_divergence_loss": best_kl, "is_line_search_success": found.to(best.dtype)}

    def set_policy(self, flat: Tensor) -> None:
        parts = flat.split([p.numel() for p in self.policy_parameters])
        for parameter, part in zip(self.policy_parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))


def flatten(tensors: tuple[Tensor, ...] | list[nn.Parameter]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def flat_gradient(of: Tensor, parameters: list[nn.Parameter], *, create_graph: bool = False) -> Tensor:
    """Returns the gradient of `of` as one vector, zero for unused parameters; keeps the graph for further gradients."""
    gradient = torch.autograd.grad(
        of, parameters, retain_graph=True, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return flatten(gradient)


register("trpo", TRPOAlgorithm, TRPOConfig, "Trust Region Policy Optimization.", "core")
