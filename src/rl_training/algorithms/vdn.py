"""Value decomposition networks: the team's value is the sum of its agents' (Sunehag et al., 2018, arXiv:1706.05296)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig, num_actions
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.algorithms.team import check_state, living_rows
from rl_training.core import Loss, Schedule, Spec, Step, StepBatch, Tree, register
from rl_training.core.ranges import Count, PositiveSchedule, PositiveShare, Share
from rl_training.core.teams import ACTING, ALIVE, TeamSpec, joint
from rl_training.models import MeanHead, ObservationNormalizer, QNetwork, QPolicy, encode_mask, forbid
from rl_training.models.team_policy import AgentView, TeamPolicy, flat_rows


@dataclass(frozen=True, kw_only=True)
class VDNConfig(OffPolicyConfig):
    """VDN's settings; rows, and so `batch_size`, count steps of environments, with all their agents."""

    learning_rate: PositiveSchedule = Schedule(5e-4, 5e-4)
    agent_id: bool = True  # agents of a group, which share a network, see their number
    tau: PositiveShare = 1.0  # 1: targets are copied, below: averaged
    target_update_interval: Count = 200  # env steps
    double: bool = True  # the online networks choose the next actions, the targets value them
    loss: Literal["huber", "mse"] = "mse"
    exploration_fraction: PositiveShare = 0.1  # of the run, for epsilon
    exploration_initial_eps: Share = 1.0
    exploration_final_eps: Share = 0.05


ConfigT = TypeVar("ConfigT", bound=VDNConfig)


class SumMixer(nn.Module):
    """The sum of the agents' values, [rows], without parameters."""

    def forward(self, q: Tensor, state: Tensor | None) -> Tensor:
        return q.sum(-1)


class MixedQAlgorithm(OffPolicyAlgorithm[ConfigT]):
    """Base of methods that learn the team's value, mixed from the values of its agents' actions, from joint steps.

    An agent that waits or is dead counts as 0 in the mixture, unless nobody acts; see `chosen`.
    """

    teams: ClassVar[bool] = True
    needs_state: ClassVar[bool] = False
    why_not_shared = "its agents learn in one process"
    spec: TeamSpec  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        assert isinstance(spec, TeamSpec)
        check_state(type(self).__name__.removesuffix("Algorithm"), spec, needed=self.needs_state)
        super().__init__(config, spec)
        self.register_load_state_dict_pre_hook(refuse_joint_statistics)

    def build_mixer(self) -> nn.Module:
        return SumMixer()

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        """Builds a policy for every group, with a normaliser of its own; `normalizer`, of all together, is not used."""
        c, seen = self.config, self.spec.seen_by("policy")
        assert isinstance(seen, TeamSpec)
        views = {one.name: AgentView(self.spec, one, agent_id=c.agent_id, state=False) for one in self.spec.members}
        policies = {name: self.build_policy(view) for name, view in views.items()}
        self.policy = TeamPolicy(seen, views, {**policies})
        self.mixer = self.build_mixer()
        self.networks = nn.ModuleDict({name: policy.network for name, policy in policies.items()})
        self.targets, self.target_mixer = frozen_copy(self.networks), frozen_copy(self.mixer)
        self.add_optimizer("q", [*self.networks.parameters(), *self.mixer.parameters()])

    def build_policy(self, view: AgentView) -> QPolicy:
        c = self.config
        network = QNetwork(
            view.spec.obs,
            num_actions(view.spec, type(self).__name__.removesuffix("Algorithm"), other="IPPO"),
            c.net_arch,
            MeanHead(c.loss),
            activation_fn=c.activation_fn,
            encoder=c.encoder,
        )
        epsilon = Schedule(c.exploration_initial_eps, c.exploration_final_eps, c.exploration_fraction)
        normalizer = ObservationNormalizer(view.spec.obs, enabled=c.normalize_observation, clip=c.clip_observation)
        return QPolicy(
            view.spec, normalizer, network, exploration="epsilon", epsilon=epsilon, temperature=Schedule(1.0, 1.0)
        )

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.loss, batch, "q")

    def target_networks(self) -> TargetNetworks:
        c = self.config
        pairs = [(self.targets, self.networks), (self.target_mixer, self.mixer)]
        return TargetNetworks(pairs, c.tau, c.target_update_interval, "env_steps")

    def loss(self, batch: StepBatch) -> Loss:
        obs = joint(self.critic_view(batch.obs))
        q = self.chosen(self.networks, obs, batch.action)  # pyrefly: ignore (a team's actions)
        total = self.mix(self.mixer, q, obs)
        target = batch.reward + batch.discount * self.next_value(batch)
        error = (F.mse_loss if self.config.loss == "mse" else F.smooth_l1_loss)(total, target, reduction="none")
        mean = self.weighted_loss(error, batch)
        return self.result(mean, total.detach(), (total - target).detach().abs(), batch)

    def result(self, loss: Tensor, total: Tensor, td_error: Tensor, batch: StepBatch) -> Loss:
        weight = batch.weight
        count = weight.sum().clamp(min=1.0)
        metrics = {
            "loss": loss.detach(),
            "q_mean": (total * weight).sum() / count,
            "td_error": (td_error * weight).sum() / count,
            "epsilon": next(iter(self.policies.values())).epsilon().clone(),
            "learning_rate": self.optimizer("q").learning_rates[0]().clone(),
        }
        return Loss(loss, metrics, {"priority": td_error})

    @property
    def observes(self) -> bool:
        return self.privileged.enabled or any(policy.normalizer.enabled for policy in self.policies.values())

    def observe(self, obs: Tree, valid: Tensor) -> None:
        for name, policy in self.policies.items():
            view = self.policy.views[name]  # pyrefly: ignore (a TeamPolicy's)
            rows, living = living_rows(view, joint(obs), valid)  # pyrefly: ignore (an AgentView)
            policy.normalizer.update(rows, living, self.ranks)
        self.privileged.update(obs, valid, self.ranks)

    def critic_view(self, obs: Tree) -> Tree:
        """Returns joint observations with the global state normalised; the groups' rows are by `rows_values`."""
        return self.privileged(obs)

    @property
    def policies(self) -> dict[str, QPolicy]:
        """Returns the policy of every group."""
        return dict(self.policy.members.items())  # pyrefly: ignore (a TeamPolicy's)

    def rows_values(self, networks: nn.ModuleDict, name: str, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Returns the values [env * agents, action] of a group's agents, and the mask of allowed actions or None."""
        rows = self.policy.views[name](obs)  # pyrefly: ignore (a TeamPolicy's)
        return networks[name](self.policies[name].normalizer(rows)).squeeze(-1), encode_mask(rows)

    def chosen(self, networks: nn.ModuleDict, obs: dict[str, Tensor], action: dict[str, Tensor]) -> Tensor:
        """Returns the values [env, all agents] of the actions that the agents took; 0 of those who did not act.

        Where nobody acts, it is the mean over the actions of everyone alive, so that the team's value passes through.
        """
        found, idle = [], []
        for name, view in self.policy.views.items():  # pyrefly: ignore (a TeamPolicy's)
            q, _ = self.rows_values(networks, name, obs)
            found.append(view.apart(q.gather(-1, flat_rows(action[name], 1).unsqueeze(-1)).squeeze(-1)))
            idle.append(view.apart(q.mean(-1)))
        values = torch.cat(found, -1)
        if ACTING not in obs:  # everyone always acts
            return values
        acting, alive = obs[ACTING].bool(), obs[ALIVE].bool()
        rests = alive & ~acting.any(-1, keepdim=True)
        return torch.where(acting & alive, values, torch.where(rests, torch.cat(idle, -1), 0.0))

    @torch.no_grad()
    def next_value(self, batch: StepBatch) -> Tensor:
        """Returns the target's value of the team's next state, [env]: of the best action of every agent."""
        obs = joint(self.critic_view(batch.next_obs))
        best = {}
        for name, view in self.policy.views.items():  # pyrefly: ignore (a TeamPolicy's)
            q, mask = self.rows_values(self.networks if self.config.double else self.targets, name, obs)
            best[name] = view.apart(forbid(q, mask).argmax(-1))
        return self.mix(self.target_mixer, self.chosen(self.targets, obs, best), obs)

    def mix(self, mixer: nn.Module, q: Tensor, obs: dict[str, Tensor]) -> Tensor:
        """Returns the team's value [env] of values [env, all agents]."""
        return mixer(q, obs.get("state"))

    @torch.no_grad()
    def team_value(self, obs: dict[str, Tensor], action: dict[str, Tensor]) -> Tensor:
        """Returns the team's value [env] of joint actions [env, agents] by group, for joint observations."""
        obs = joint(self.critic_view(obs))
        return self.mix(self.mixer, self.chosen(self.networks, obs, action), obs)


def refuse_joint_statistics(algorithm: nn.Module, state: dict, prefix: str, *_: object) -> None:
    """Raises a RuntimeError for weights with statistics of joint observations, which no group can use."""
    if any(key.startswith(f"{prefix}policy.normalizer.") for key in state):
        raise RuntimeError(
            "it normalises joint observations, and now every group has statistics of its own: train it again"
        )


class VDNAlgorithm(MixedQAlgorithm[VDNConfig]):
    """VDN: Q-networks whose sum is the team's value."""


register("vdn", VDNAlgorithm, VDNConfig, "Q-learning for teams: the team's value is the sum of its agents'.")
