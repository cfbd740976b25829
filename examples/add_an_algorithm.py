"""Adds an algorithm from outside the package: the regression steps of AWR (Peng et al., 2019, arXiv:1910.00177).

The policy is pulled towards the actions it took, the more the better they turned out. The paper takes them from replay;
here they come from the last rollout.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

import rl_training
from rl_training import Agent
from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.core import Adam, Loss, Needs, Pass, RolloutBatch, Schedule, Step
from rl_training.experiment import register_algorithm
from rl_training.functional import normalize_advantage, weighted_mean


@dataclass(frozen=True, kw_only=True)
class AWRConfig(OnPolicyConfig):
    """Networks, discount and normalisation are inherited; a field's range is checked where a config is read."""

    needs = Needs("rollout", {"n_steps": 64})

    learning_rate: Schedule = field(default=Schedule(1e-3, 1e-3), metadata={"above": 0})
    batch_size: int = field(default=128, metadata={"min": 1})
    n_epochs: int = field(default=10, metadata={"min": 1})
    beta: float = field(default=0.5, metadata={"above": 0})  # temperature: lower trusts advantages more
    max_weight: float = field(default=20.0, metadata={"above": 0})


class AWRAlgorithm(OnPolicyAlgorithm[AWRConfig]):
    """Value epochs, then policy epochs; the base class wires the networks and computes advantages."""

    def build_optimizers(self, policy: list[nn.Parameter], value: list[nn.Parameter]) -> None:
        self.optimizers["policy"] = Adam([(policy, self.config.learning_rate)], max_grad_norm=0.5)
        self.optimizers["value"] = Adam([(value, self.config.learning_rate)], max_grad_norm=0.5)

    def passes(self) -> tuple[Pass, ...]:
        c = self.config
        return (Pass(c.n_epochs, c.batch_size, method="update_value"), Pass(c.n_epochs, c.batch_size))

    def update_value(self, batch: RolloutBatch) -> Step:
        return self.minimize(self.critic_loss, batch, "value")

    def update(self, batch: RolloutBatch) -> Step:
        return self.minimize(self.actor_loss, batch, "policy")

    def critic_loss(self, batch: RolloutBatch) -> Loss:
        loss = self.value_loss(self.batch_value(batch), batch)
        return Loss(loss, {"value_loss": loss.detach()})

    def actor_loss(self, batch: RolloutBatch) -> Loss:
        advantage = normalize_advantage(batch.advantage, batch.weight)
        attraction = (advantage / self.config.beta).exp().clamp(max=self.config.max_weight)
        log_prob = self.batch_distribution(batch).log_prob(batch.action)
        loss = -weighted_mean(attraction * log_prob, batch.weight)
        metrics = {"policy_loss": loss.detach(), "attraction": weighted_mean(attraction, batch.weight)}
        return Loss(loss, metrics)


class AWR(Agent):
    """The managed class: keywords are the fields of `AWRConfig`."""

    name = "awr"


register_algorithm("awr", AWRAlgorithm, AWRConfig)


def main() -> None:
    agent = AWR("CartPole-v1", backend="native", n_envs=8, seed=0)
    untrained = agent.evaluate(20).mean
    result = agent.learn(40_000)
    trained = agent.evaluate(20).mean
    print(f"{result.algorithm}: return {untrained:.0f} before, {trained:.0f} after {result.total_timesteps} steps")
    assert trained > 3 * untrained

    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "model")
        loaded = rl_training.load(Path(folder) / "model")
    assert loaded.predict([0.0, 0.1, 0.02, -0.1])[0] == agent.predict([0.0, 0.1, 0.02, -0.1])[0]
    print(f"loaded as {type(loaded).__name__}")


if __name__ == "__main__":
    main()
