"""Independent Q-learning: every agent of a team is a DQN of its own observations and rewards (Tan, 1993)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.off_policy import num_actions
from rl_training.algorithms.team import TeamAlgorithm
from rl_training.core import Column, Needs, Spec, Step, StepBatch, Tree, tree_map
from rl_training.core.ranges import Count
from rl_training.core.registry import register
from rl_training.core.teams import ACTING, AGENT_DISCOUNT, AGENT_REWARD, AGENT_WEIGHT, OWN_STEPS, joint
from rl_training.models.team_policy import AgentView, flat_rows


@dataclass(frozen=True, kw_only=True)
class IndependentQConfig(DQNConfig):
    """Settings of DQN for teams; rows, and so `batch_size`, count steps of environments, with all their agents."""

    needs = Needs("replay")

    agent_id: bool = True  # agents of a group, which share a network, see their number
    learns_from: Literal["agent", "team"] = "agent"  # rewards: each agent's own, or the team's
    longest_wait: Count = 32  # env steps from an action within which the agent acts again or ends, or it does not count


class IndependentQAlgorithm(TeamAlgorithm[IndependentQConfig, StepBatch]):
    """Independent Q-learning: a DQN for every group, whose rows are the steps of agents.

    Where agents may wait or die, a row runs from an agent's action to its next action or its end.
    """

    def __init__(self, config: IndependentQConfig, spec: Spec) -> None:
        super().__init__(config, spec, agent_id=config.agent_id)

    def build_member(self, view: AgentView) -> DQNAlgorithm:
        num_actions(view.spec, "IndependentQ", other="IPPO")  # before DQN would recommend a method for one agent
        return DQNAlgorithm(self.config, view.spec)

    @property
    def columns(self) -> tuple[Column, ...]:
        unused = () if self.config.learns_from == "agent" else (AGENT_REWARD,)
        given = tuple(column for column in self.spec.columns if column.name not in unused)
        longest = self.config.longest_wait
        return (*given, Column(OWN_STEPS, (longest,), source="episode")) if self.spec.lives else given

    def agent_batches(self, batch: StepBatch) -> dict[str, StepBatch]:
        """Returns a batch of joint steps as one batch for every group, with a row for each of its agents."""
        return {name: self.agent_batch(name, batch) for name, _ in self.groups()}

    def agent_batch(self, name: str, batch: StepBatch) -> StepBatch:
        view, given = self.view(name), batch.columns
        drawn = {key: view.shared(given[key]) for key in ("probability",) if key in given}
        own = AGENT_DISCOUNT in given
        return StepBatch(
            view(batch.obs),  # pyrefly: ignore (a team's, as below)
            tree_map(lambda x: flat_rows(x, 1), batch.action[name]),  # pyrefly: ignore
            view.own(given[AGENT_REWARD]) if AGENT_REWARD in given else view.shared(batch.reward),
            view.own(given[AGENT_DISCOUNT]) if own else view.shared(batch.discount),
            something_allowed(view(batch.next_obs)) if own else view(batch.next_obs),  # pyrefly: ignore
            view.own(given[AGENT_WEIGHT]) if own else view.shared(batch.weight),
            drawn,
        )

    def update(self, batch: StepBatch) -> Step:
        steps = self.update_members(self.agent_batches(batch))
        metrics = {key: x for name, step in steps.items() for key, x in self.named(name, step.metrics).items()}
        found = [self.view(name).apart(step.rows["priority"]) for name, step in steps.items()]
        priority, weight = torch.cat(found, -1), batch.columns.get(AGENT_WEIGHT)
        if weight is None:
            return Step(metrics, {"priority": priority.mean(-1)})
        acting = joint(batch.obs)[ACTING] * batch.weight.unsqueeze(-1)
        metrics["unfinished"] = (acting - weight).sum() / acting.sum().clamp(min=1.0)
        return Step(metrics, {"priority": row_priority(priority, weight, acting)})

    def update_target(self, batch: StepBatch) -> Step:
        """Moves the target networks of all groups; does not use the batch."""
        for _, member in self.groups():
            member.update_target(batch)  # pyrefly: ignore (a DQN)
        return Step({})

    def q_values(self, obs: dict[str, Tensor], name: str) -> Tensor:
        """Returns the values [env, agent, action] of a group's agents for joint observations."""
        view = self.view(name)
        return view.apart(self.policy.members[name].q_values(view(obs)))  # pyrefly: ignore (a QPolicy)


def row_priority(error: Tensor, weight: Tensor, acting: Tensor) -> Tensor:
    """Returns the priority of every row, [row]: the mean error of its agents that count; all arguments are [row, agent].

    An agent that acts and has weight 0 has not completed its transition yet. Its row gets at least the batch's mean
    priority, and is drawn again. It does not get the highest: rows that are never complete would crowd out others.
    """
    found = (error * weight).sum(-1) / weight.sum(-1).clamp(min=1.0)
    usual = torch.where(weight.any(), (error * weight).sum() / weight.sum().clamp(min=1.0), 1.0)
    return torch.where((acting > weight).any(-1), found.clamp(min=usual), found)


def something_allowed(rows: Tree) -> Tree:
    """Returns rows of last observations, whose masks may allow nothing: those of agents cut off then allow all."""
    if not isinstance(rows, dict) or "action_mask" not in rows:
        return rows
    mask = rows["action_mask"].bool()
    return rows | {"action_mask": (mask | ~mask.any(-1, keepdim=True)).to(rows["action_mask"].dtype)}


register("independent_q", IndependentQAlgorithm, IndependentQConfig, "DQN for teams, every agent by itself.")
