"""IPPO with memory: every agent of a team has its own, in recurrent networks that the agents of a group share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from rl_training.algorithms.ippo import AgentEstimates, TeamPPOAlgorithm, TeamPPOConfig
from rl_training.algorithms.recurrent_ppo import RecurrentPPOAlgorithm, RecurrentPPOConfig
from rl_training.core import Column, Rows
from rl_training.core.registry import register
from rl_training.models.team_policy import flat_rows

FIRST = "first"  # the column that says where episodes begin


@dataclass(frozen=True, kw_only=True)
class RecurrentTeamPPOConfig(RecurrentPPOConfig, TeamPPOConfig):
    """Settings of recurrent PPO for teams; `batch_size` counts steps of environments, with all their agents."""

    needs = TeamPPOConfig.needs


@dataclass(frozen=True, kw_only=True)
class RecurrentIPPOConfig(RecurrentTeamPPOConfig):
    """RecurrentIPPO's settings: RecurrentPPO's, and those of a team."""


ConfigT = TypeVar("ConfigT", bound=RecurrentTeamPPOConfig)


class RecurrentAgentPPO(AgentEstimates, RecurrentPPOAlgorithm):
    """Recurrent PPO whose rows are the steps of agents."""


class RecurrentTeamPPOAlgorithm(TeamPPOAlgorithm[ConfigT]):
    """Base of recurrent PPO for teams, on pieces of episodes: an agent's memory begins and ends with the episode."""

    member = RecurrentAgentPPO

    def memory_columns(self) -> tuple[Column, ...]:
        memory = self.policy.initial_memory(1)
        parts = (Column(f"memory{i}", part.shape[1:], part.dtype, "policy") for i, part in enumerate(memory))
        return (Column(FIRST, (), torch.bool, "policy"), *parts)

    def member_columns(self, name: str, columns: Rows) -> Rows:
        start = 0
        for group, member in self.groups():
            size = len(member.policy.initial_memory(0))
            if group == name:
                own = {f"memory{i}": flat_rows(columns[f"memory{start + i}"], 2) for i in range(size)}
                return {FIRST: self.view(name).shared(columns[FIRST], 2), **own}
            start += size
        raise KeyError(name)


class RecurrentIPPOAlgorithm(RecurrentTeamPPOAlgorithm[RecurrentIPPOConfig]):
    """IPPO with memory: RecurrentPPO for every agent by itself; agents of a group share their networks."""


register("recurrent_ippo", RecurrentIPPOAlgorithm, RecurrentIPPOConfig, "IPPO with an LSTM or GRU.")
