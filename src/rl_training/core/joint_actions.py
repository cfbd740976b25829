"""Joint actions of teams, which have one entry per group of agents: their conversion, and random ones."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from rl_training.core.policy import Act, Memory, UniformPolicy
from rl_training.core.spaces import Spec
from rl_training.core.teams import TeamSpec, joint
from rl_training.core.tree import Tree, tree_leaves, tree_map


class TeamActionConverter(nn.Module):
    """A converter of joint actions from the units of the groups' policies to the environment's."""

    def __init__(self, parts: dict[str, nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, action: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: part(action[name]) for name, part in self.parts.items()}

    def on(self, device: torch.device | str) -> Self:
        """Returns a copy of the converter on `device`, independent of the policy's device."""
        return copy.deepcopy(self).to(device)


class UniformTeam(UniformPolicy):
    """A policy of uniformly random allowed actions for every agent of a team."""

    def __init__(self, spec: TeamSpec) -> None:
        nn.Module.__init__(self)
        self.spec = spec
        self.register_buffer("anchor", torch.zeros(()), persistent=False)
        self.groups = [(group, UniformPolicy(Spec(group.obs, group.action))) for group in spec.members]

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        acts = {}
        for group, member in self.groups:
            own = {part: joint(obs)[key] for part, key in group.keys.items()}
            rows = tree_map(lambda x: x.flatten(0, 1), own)
            acts[group.name] = member.act(rows), next(tree_leaves(own)).shape[:2]
        action = {name: act.action.unflatten(0, shape) for name, (act, shape) in acts.items()}
        log_prob = torch.cat([act.log_prob.unflatten(0, shape) for act, shape in acts.values()], -1)
        return Act(action, log_prob, memory)  # pyrefly: ignore (a team's actions)


def uniform_policy(spec: Spec) -> UniformPolicy:
    """Returns the policy that takes uniformly random actions in the spaces of `spec`, of one agent or of a team."""
    return UniformTeam(spec) if isinstance(spec, TeamSpec) else UniformPolicy(spec)
