"""Independent PPO: every agent of a team learns from its own observations and rewards (arXiv:2011.09533)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from rl_training.algorithms.on_policy import OnPolicyAlgorithm
from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.algorithms.team import TeamAlgorithm
from rl_training.core import Column, Metrics, Needs, RolloutBatch, Rows, Spec, Step, Transition, Tree, tree_map
from rl_training.core.registry import register
from rl_training.core.teams import AGENT_REWARD, AGENT_TERMINATED, AGENT_TRUNCATED, joint
from rl_training.functional import explained_variance
from rl_training.functional.waiting import waiting_gae
from rl_training.models.team_policy import AgentView

ACTING, NEXT_ACTING = "acting", "next_acting"  # columns of an agent's rows, where agents may wait


@dataclass(frozen=True, kw_only=True)
class TeamPPOConfig(PPOConfig):
    """Settings of PPO for teams; rows, and so `batch_size`, count steps of environments, with all their agents."""

    needs = Needs("rollout", {"n_steps": 128})

    agent_id: bool = True  # agents of a group, which share a policy, see their number
    learns_from: Literal["agent", "team"] = "agent"  # rewards: each agent's own, or the team's


@dataclass(frozen=True, kw_only=True)
class IPPOConfig(TeamPPOConfig):
    """IPPO's settings: PPO's, and those of a team."""


ConfigT = TypeVar("ConfigT", bound=TeamPPOConfig)


class TeamBatch(NamedTuple):
    """A rollout of a team: joint observations, and a batch [time, env, agents, ...] without them for every group."""

    obs: Tree
    weight: Tensor  # of environments, 0 on padding
    groups: dict[str, RolloutBatch]


class AgentEstimates(OnPolicyAlgorithm):
    """Advantages of rows that are agents' steps, in which they may wait."""

    def estimate(self, rollout: Transition, value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor, Rows]:
        if ACTING not in rollout.columns:
            return super().estimate(rollout, value, next_value)
        found = waiting_gae(
            rollout.reward,
            value,
            next_value,
            rollout.terminated,
            rollout.truncated,
            rollout.columns[ACTING],
            rollout.columns[NEXT_ACTING],
            gamma=self.config.gamma,
            gae_lambda=self.config.gae_lambda,
        )
        return found.advantage, found.advantage + value, {ACTING: found.counts}

    @torch.no_grad()
    def prepare(self, rollout: Transition) -> tuple[RolloutBatch, Metrics]:
        batch, metrics = super().prepare(rollout)
        if ACTING not in rollout.columns:
            return batch, metrics
        weight = batch.weight * batch.columns[ACTING]
        fit = explained_variance(batch.value, batch.target, weight)
        return batch._replace(weight=weight), metrics | {"explained_variance": fit}


class AgentPPO(AgentEstimates, PPOAlgorithm):
    """PPO whose rows are the steps of agents."""


class TeamPPOAlgorithm(TeamAlgorithm[ConfigT, TeamBatch]):
    """Base of PPO for teams: a PPO for every group, on rollouts with a row per environment."""

    member: type[PPOAlgorithm] = AgentPPO

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        super().__init__(config, spec, agent_id=config.agent_id)

    def build_member(self, view: AgentView) -> PPOAlgorithm:
        return self.member(self.config, view.spec)

    @property
    def columns(self) -> tuple[Column, ...]:
        wanted = (AGENT_REWARD,) if self.config.learns_from == "agent" else ()
        wanted += (AGENT_TERMINATED, AGENT_TRUNCATED)
        return (*(column for column in self.spec.columns if column.name in wanted), *self.memory_columns())

    def memory_columns(self) -> tuple[Column, ...]:
        """Returns the columns that hold the memory of all agents; () for policies without memory."""
        return ()

    def agent_rollout(self, name: str, rollout: Transition) -> Transition:
        """Returns a rollout [time, env, ...] of the team as that of a group's agents, [time, env * agents, ...]."""
        view, given = self.view(name), rollout.columns
        obs, next_obs = joint(rollout.obs), joint(rollout.next_obs)
        spread = AGENT_REWARD in given and self.config.learns_from == "agent"
        ends = (rollout.terminated, rollout.truncated)
        agent_ends = tuple(given[key] for key in (AGENT_TERMINATED, AGENT_TRUNCATED) if key in given)
        terminated, truncated = (
            (view.own(x, 2) for x in agent_ends) if agent_ends else (view.shared(x, 2) for x in ends)
        )
        acting, next_acting = (view.acting(x, 2) for x in (obs, next_obs))
        columns = self.member_columns(name, given)
        if acting is not None and next_acting is not None:
            columns |= {ACTING: acting, NEXT_ACTING: next_acting}
        return Transition(
            view(obs, 2),
            view_rows(rollout.action[name]),  # pyrefly: ignore (a team's)
            view.own(rollout.log_prob, 2),
            view.own(given[AGENT_REWARD], 2) if spread else view.shared(rollout.reward, 2),
            view(next_obs, 2),
            terminated,
            truncated,
            view.shared(rollout.valid, 2),
            columns,
        )

    def member_columns(self, name: str, columns: Rows) -> Rows:
        """Returns the columns of a group's rows from those of the team's steps; {} for policies without memory."""
        return {}

    @torch.no_grad()
    def prepare(self, rollout: Transition) -> tuple[TeamBatch, Metrics]:
        self.for_members()
        groups, metrics = {}, {}
        for name, member in self.groups():
            batch, said = member.prepare(self.agent_rollout(name, rollout))
            kept = {key: x for key, x in batch.columns.items() if key not in (ACTING, NEXT_ACTING)}
            batch = batch._replace(obs=None, columns=kept)
            groups[name] = tree_map(partial(self.view(name).apart, dim=1), batch)
            metrics |= self.named(name, said)
        weight = rollout.valid.to(rollout.reward.dtype)
        return TeamBatch(rollout.obs, weight, groups), metrics

    def update(self, batch: TeamBatch) -> Step:
        lead = batch.weight.ndim
        batches = {}
        for name, own in batch.groups.items():
            rows = tree_map(lambda x: x.flatten(lead - 1, lead), own)
            obs = self.view(name)(joint(batch.obs), lead)
            batches[name] = rows._replace(obs=obs, weight=rows.weight * self.view(name).shared(batch.weight, lead))
        steps = self.update_members(batches)
        return Step({key: x for name, step in steps.items() for key, x in self.named(name, step.metrics).items()})


def view_rows(x: Tensor) -> Tensor:
    """Returns a group's actions [time, env, agents, ...] as [time, env * agents, ...]."""
    return x.flatten(1, 2)


class IPPOAlgorithm(TeamPPOAlgorithm[IPPOConfig]):
    """IPPO: PPO for every agent by itself; agents of a group share their networks."""


register("ippo", IPPOAlgorithm, IPPOConfig, "PPO for teams, every agent by itself.")
