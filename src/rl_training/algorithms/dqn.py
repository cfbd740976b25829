"""Deep Q-learning (Mnih et al., 2015) and its improvements as options; all of them together are Rainbow.

Double (arXiv:1509.06461), dueling (arXiv:1511.06581), prioritised (arXiv:1511.05952), n-step, noisy (arXiv:1706.10295),
distributional by atoms (arXiv:1707.06887), quantiles (arXiv:1710.10044) or implicit quantiles (arXiv:1806.06923), and
all together (arXiv:1710.02298).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig, num_actions
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import Loss, Metrics, Schedule, Step, StepBatch, Supply, Tree, register
from rl_training.core.noise import noise_like
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, PositiveShare, Real, Several, Share
from rl_training.functional import weighted_mean, weighted_means
from rl_training.models import (
    CategoricalHead,
    MeanHead,
    ObservationNormalizer,
    PlausibleActions,
    QNetwork,
    QPolicy,
    QuantileHead,
    ValueHead,
    dormant_share,
    forbid,
)


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """DQN's settings, with Stable-Baselines3's names and defaults; later improvements (double, dueling ...) are off."""

    tau: PositiveShare = 1.0  # 1: the target is copied, below: averaged
    target_update_interval: Count = 10_000  # env steps
    double: bool = False  # the online network chooses the next action, the target values it
    dueling: bool = False  # a stream for the state's value, one for the advantages
    noisy: bool = False  # the last two layers carry learned noise
    noisy_sigma: Positive = 0.5  # of the noise at the start
    layer_norm: bool = False  # before every hidden layer's activation
    head: Literal["mean", "c51", "quantile", "iqn"] = "mean"
    loss: Literal["huber", "mse"] = "huber"  # of the mean head
    n_atoms: Several = 51  # c51
    v_min: Real = -100.0  # c51: the lowest return
    v_max: Real = 100.0
    n_quantiles: Count = 200  # quantile; iqn: how many to act on
    n_samples: Count = 64  # iqn: fractions drawn per update
    n_target_samples: Count = 64  # iqn: fractions drawn for the target
    n_cosines: Count = 64  # iqn
    kappa: NonNegative = 1.0  # quantile and iqn: threshold of Huber's loss
    exploration: Literal["auto", "epsilon", "noisy", "boltzmann"] = "auto"  # auto: noisy if the network is
    exploration_fraction: PositiveShare = 0.1  # of the run, for epsilon
    exploration_initial_eps: Share = 1.0
    exploration_final_eps: Share = 0.05
    temperature: PositiveSchedule = Schedule(1.0, 0.1)  # boltzmann

    @property
    def explores_by(self) -> Literal["epsilon", "noisy", "boltzmann"]:
        if self.exploration == "auto":
            return "noisy" if self.noisy else "epsilon"
        return self.exploration

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.exploration == "noisy" and not self.noisy:
            raise ValueError(
                "algorithm.exploration='noisy' needs noisy layers: set noisy=true, or explore by 'epsilon'"
            )
        if self.loss == "mse" and self.head != "mean":
            raise ValueError(
                f"algorithm.loss='mse' is for head='mean': head={self.head!r} has a loss of its own, drop it"
            )
        if self.head == "c51" and self.v_min >= self.v_max:
            raise ValueError(f"algorithm.v_min={self.v_min} must be below v_max={self.v_max}: they bound the return")
        if self.temperature.final <= 0 and self.explores_by == "boltzmann":
            raise ValueError("algorithm.temperature must stay above 0: give the schedule a small final value")


class DQNAlgorithm(OffPolicyAlgorithm[DQNConfig]):
    """DQN: a Q-network, its target network, and a value head that defines the loss."""

    may_differ = ("exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "temperature")
    why_not_stacked = None
    policy: QPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c, spec = self.config, self.spec.seen_by("policy")
        network = QNetwork(
            spec.obs,
            num_actions(self.spec, "DQN"),
            c.net_arch,
            self.build_head(),
            dueling=c.dueling,
            noisy=c.noisy,
            noisy_sigma=c.noisy_sigma,
            num_cosines=c.n_cosines if c.head == "iqn" else 0,
            activation_fn=c.activation_fn,
            layer_norm=c.layer_norm,
            encoder=c.encoder,
        )
        self.policy = QPolicy(
            spec,
            normalizer,
            network,
            exploration=c.explores_by,
            epsilon=Schedule(c.exploration_initial_eps, c.exploration_final_eps, c.exploration_fraction),
            temperature=c.temperature,
            num_fractions=c.n_quantiles if c.head == "iqn" else 0,
            plausible=self.build_plausible(),
        )
        self.target = frozen_copy(network)
        self.add_optimizer("q", network.parameters())

    def build_plausible(self) -> PlausibleActions | None:
        return None  # a variant may keep to what the data do

    def build_head(self) -> ValueHead:
        c = self.config
        match c.head:
            case "c51":
                return CategoricalHead(c.n_atoms, c.v_min, c.v_max)
            case "quantile" | "iqn":
                return QuantileHead(c.n_quantiles if c.head == "quantile" else c.n_samples, c.kappa)
        return MeanHead(c.loss)

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.loss, batch, "q")

    def target_networks(self) -> TargetNetworks:
        c = self.config
        return TargetNetworks([(self.target, self.policy.network)], c.tau, c.target_update_interval, "env_steps")

    def loss(self, batch: StepBatch) -> Loss:
        head, network = self.policy.network.head, self.policy.network
        fractions = self.draw_fractions(batch, self.config.n_samples)
        all_z = network(self.normalizer(batch.obs), fractions)
        z = take(all_z, batch.action)
        next_z = self.next_value(batch)
        loss = head.loss(z, fractions, next_z, batch.reward, batch.discount)
        mean, (penalty, more) = self.weighted_loss(loss, batch), self.penalty(head.mean(all_z), batch)
        found = z.detach()
        td_error = head.td_error(found, next_z, batch.reward, batch.discount, loss.detach())
        q_mean, error = weighted_means(batch.weight, head.mean(found), td_error)
        metrics = {
            "loss": mean.detach(),
            "q_mean": q_mean,
            "td_error": error,
            "epsilon": self.policy.epsilon().clone(),
            "learning_rate": self.optimizer("q").learning_rates[0]().clone(),
        }
        return Loss(mean if penalty is None else mean + penalty, metrics | more, {"priority": td_error})

    def penalty(self, q: Tensor, batch: StepBatch) -> tuple[Tensor | None, Metrics]:
        """Returns a 0-dim term, or None, to add to the loss, from values `q` [batch, action], and metrics to log."""
        return None, {}

    @torch.no_grad()
    def next_value(self, batch: StepBatch) -> Tensor:
        """Returns the target network's outputs [batch, outputs] for its best next action (double: the online one's)."""
        obs, mean = self.normalizer(batch.next_obs), self.policy.network.head.mean
        next_z = self.target(obs, self.draw_fractions(batch, self.config.n_target_samples))
        if self.config.double:
            q = self.policy.q_values(batch.next_obs, noise=True)
        elif self.config.head == "iqn":  # the choice is made by evenly spread quantiles, as in acting
            q = mean(self.target(obs, self.policy.midpoints(obs)))
        else:
            q = mean(next_z)
        return take(next_z, forbid(q, self.policy.allowed(batch.next_obs)).argmax(-1))

    def draw_fractions(self, batch: StepBatch, num: int) -> Tensor:
        """Returns random fractions [batch, num] for IQN, fixed midpoints [n] for quantiles, else a placeholder."""
        head = self.policy.network.head
        if self.config.head == "iqn":
            return noise_like("uniform", batch.weight.new_empty(batch.weight.shape[0], num))
        return head.midpoints if isinstance(head, QuantileHead) else batch.weight

    def values(self, obs: Tree) -> Tensor:
        return self.policy.values(obs)

    def diagnose(self, batch: StepBatch) -> Metrics:
        q = self.policy.q_values(batch.obs).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        next_q = self.policy.network.head.mean(self.next_value(batch))
        error = (batch.reward + batch.discount * next_q - q).abs()
        dormant = dormant_share(self.policy.network.activations(self.normalizer(batch.obs)))
        return {"td_error": weighted_mean(error, batch.weight), "dormant_units": dormant}


def take(z: Tensor, action: Tensor) -> Tensor:
    """Returns the outputs of one action per row: [batch, outputs] from `z` [batch, action, outputs]."""
    index = action.reshape(-1, 1, 1).expand(-1, 1, z.shape[-1])
    return z.gather(1, index).squeeze(1)


register("dqn", DQNAlgorithm, DQNConfig, "Deep Q-learning; every improvement is a keyword.", "core")
