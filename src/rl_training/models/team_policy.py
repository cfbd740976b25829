"""The policy of a team, which holds one policy for every group of agents, and views of joint observations as rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_training.core import Act, Dict, Groups, MultiBinary, Policy, Spec, Tree
from rl_training.core.joint_actions import TeamActionConverter
from rl_training.core.policy import Memory
from rl_training.core.teams import ACTING, STATE, AgentGroup, TeamSpec, joint

OBSERVATION, AGENT_ID = "observation", "agent_id"  # keys of an agent's row, beside those of its own


def flat_rows(x: Tensor, lead: int) -> Tensor:
    """Returns [..., env, agents, ...] as [..., env * agents, ...]; `lead` counts the dimensions before the agents."""
    return x.flatten(lead - 1, lead)


class AgentView(nn.Module):
    """A view of a team's joint observations as rows, one for every agent of a group, whose spaces are `spec`.

    A row holds what the agent observes and, unless told otherwise, its number in the group as a one-hot vector; with
    `state` also the global state, for critics alone.
    """

    ids: Tensor

    def __init__(self, team: TeamSpec, group: AgentGroup, *, agent_id: bool, state: bool) -> None:
        super().__init__()
        self.name, self.num, self.keys = group.name, len(group.agents), group.keys
        self.rows, self.size = team.rows_of(group.name), len(team.agents)
        self.agent_id, self.state = agent_id and self.num > 1, state
        self.register_buffer("ids", torch.eye(self.num), persistent=False)
        own = dict(group.obs.spaces) if isinstance(group.obs, Dict) else {OBSERVATION: group.obs}
        own |= {AGENT_ID: MultiBinary(self.num)} if self.agent_id else {}
        assert isinstance(team.obs, Dict)
        everything = own | ({STATE: team.obs.spaces[STATE]} if state else {})
        self.flat = len(everything) == 1 and not isinstance(group.obs, Dict)
        seen = Groups(policy=tuple(own)) if state else Groups()
        self.spec = Spec(group.obs if self.flat else Dict(everything), group.action, seen)

    def forward(self, obs: dict[str, Tensor], lead: int = 1) -> Tree:
        """Returns a joint observation, tensors [..., env, agents, ...], as rows [..., env * agents, ...].

        `lead` counts the dimensions before the agents. The state is left out where `obs` has none.
        """
        if self.flat:
            return flat_rows(obs[self.name], lead)
        rows = {part or OBSERVATION: flat_rows(obs[key], lead) for part, key in self.keys.items()}
        shape = obs[next(iter(self.keys.values()))].shape[:lead]
        if self.agent_id:
            rows[AGENT_ID] = flat_rows(self.ids.expand(*shape, *self.ids.shape), lead)
        if self.state and STATE in obs:
            state = obs[STATE].unsqueeze(lead)
            rows[STATE] = flat_rows(state.expand(*shape, self.num, *state.shape[lead + 1 :]), lead)
        return rows

    def own(self, x: Tensor, lead: int = 1) -> Tensor:
        """Returns the rows of this group's agents in a tensor [..., env, all agents of the team]."""
        return flat_rows(x[..., self.rows], lead)

    def shared(self, x: Tensor, lead: int = 1) -> Tensor:
        """Returns a number of every environment, [..., env], as rows: every agent has it."""
        return flat_rows(x.unsqueeze(lead).expand(*x.shape, self.num), lead)

    def acting(self, obs: dict[str, Tensor], lead: int = 1) -> Tensor | None:
        """Returns a bool of every row, True where the agent's action counts; None if all agents always act."""
        return self.own(obs[ACTING], lead).bool() if ACTING in obs else None

    def apart(self, x: Tensor, dim: int = 0) -> Tensor:
        """Returns rows [..., env * agents, ...] as [..., env, agents, ...]; `dim` is that of the rows."""
        return x.unflatten(dim, (-1, self.num))


class TeamPolicy(Policy):
    """A policy for all agents of a team: each group's own policy acts for its agents, a row each."""

    def __init__(self, spec: TeamSpec, views: dict[str, AgentView], members: dict[str, Policy]) -> None:
        super().__init__(spec)
        self.views, self.members = nn.ModuleDict(views), nn.ModuleDict(members)
        self.to_env = TeamActionConverter({name: member.to_env for name, member in members.items()})  # pyrefly: ignore

    def initial_memory(self, num: int) -> Memory:
        """Returns the memory of all agents in `num` environments, tensors [num, agents, ...], group after group."""
        parts = ((view, member.initial_memory(num * view.num)) for view, member in self.groups())
        return tuple(view.apart(part) for view, memory in parts for part in memory)

    def groups(self) -> list[tuple[AgentView, Policy]]:
        """Returns the view and the policy of every group."""
        return list(zip(self.views.values(), self.members.values(), strict=True))  # pyrefly: ignore (of these kinds)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        action, log_prob, after = {}, [], []
        seen, left = joint(obs), list(memory)
        for view, member in self.groups():
            size = len(member.initial_memory(0))
            own, left = tuple(flat_rows(part, 1) for part in left[:size]), left[size:]
            begins = None if first is None else view.shared(first)
            act = member.act(view(seen), own, begins, explore=explore)
            action[view.name] = view.apart(act.action)
            log_prob.append(view.apart(act.log_prob))
            after += [view.apart(part) for part in act.memory]
        together = log_prob[0] if len(log_prob) == 1 else torch.cat(log_prob, -1)
        return Act(action, together, tuple(after))  # pyrefly: ignore (a team's actions)
