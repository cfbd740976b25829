"""TD3+BC (Fujimoto and Gu, 2021, arXiv:2106.06860) as somebody outside would write it: one overridden loss."""

from dataclasses import dataclass

from rl_training import Agent
from rl_training.algorithms import TD3Algorithm, TD3Config
from rl_training.core import Loss, StepBatch
from rl_training.core.ranges import NonNegative


@dataclass(frozen=True, kw_only=True)
class AnchoredTD3Config(TD3Config):
    alpha: NonNegative = 2.5  # weighs the critic against the distance from the data


class AnchoredTD3Algorithm(TD3Algorithm):
    def actor_loss(self, batch: StepBatch) -> Loss:
        action = self.policy.action(batch.obs)
        q = self.critics(self.normalizer(batch.obs), action, slice(1)).flatten()
        scale, far = self.config.alpha / q.abs().mean().detach(), (action - batch.action).square().mean(-1)
        loss = self.weighted_loss(far - scale * q, batch)
        return Loss(loss, {"actor_loss": loss.detach(), "distance": self.weighted_loss(far, batch).detach()})


class AnchoredTD3(Agent):
    name = "anchored_td3"
