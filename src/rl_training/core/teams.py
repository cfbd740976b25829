"""Teams: environments with several agents, as plain data.

A joint observation is a dict: one entry per group of agents, [agents, ...], and what belongs to no group (`state`,
`alive`, `acting`). A joint action has one entry per group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

from rl_training.core.spaces import (
    Box,
    Dict,
    Discrete,
    Groups,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Space,
    Spec,
    space_from_json,
    space_to_json,
)
from rl_training.core.tree import Tree
from rl_training.core.types import Column

STATE, ALIVE, ACTING = "state", "alive", "acting"  # keys of joint observations that are of no group
AGENT_REWARD = "agent_reward"  # columns of steps, [agents]: what each agent earned, and where its life ended
AGENT_TERMINATED, AGENT_TRUNCATED = "agent_terminated", "agent_truncated"
OWN_STEPS = "own_steps"  # asks a replay for agents' own transitions: AGENT_REWARD of these, and the two below, [agents]
AGENT_DISCOUNT, AGENT_WEIGHT = "agent_discount", "agent_weight"
TeamReward = Literal["sum", "mean", "shared"]  # shared: every agent earns what the team earns


@dataclass(frozen=True)
class AgentGroup:
    """Agents with the same spaces, which share a policy: the group's name, theirs, and the spaces of one agent."""

    name: str
    agents: tuple[str, ...]
    obs: Space
    action: Leaf

    def __post_init__(self) -> None:
        if not self.name or "." in self.name or self.name in (STATE, ALIVE, ACTING):
            raise ValueError(f"{self.name!r} is not a name for a group of agents: use letters, such as 'agent'")
        if not isinstance(self.action, Discrete | Box):
            kind = type(self.action).__name__
            raise ValueError(f"the agents of group {self.name!r} act in {kind}: give them Discrete or Box actions")

    @property
    def keys(self) -> dict[str, str]:
        """Returns the keys of this group in a joint observation, by the key of an agent's own; "" if that has none."""
        parts = self.obs.spaces if isinstance(self.obs, Dict) else [""]
        return {key: f"{self.name}.{key}" if key else self.name for key in parts}


@dataclass(frozen=True)
class TeamSpec(Spec):
    """The spaces of an environment with several agents, which come in groups; made by `TeamSpec.of`."""

    members: tuple[AgentGroup, ...] = ()
    reward: TeamReward = "shared"  # what the team earns in a step, of what its agents earn
    lives: bool = False  # agents may die, appear and wait: observations have `alive` and `acting`

    @classmethod
    def of(
        cls,
        members: Sequence[AgentGroup],
        *,
        state: Leaf | None = None,
        reward: TeamReward = "shared",
        lives: bool = False,
    ) -> Self:
        """Returns the spec of a team of these groups; `state` is the space of the global state that critics see."""
        names, agents = [group.name for group in members], [agent for group in members for agent in group.agents]
        twice = next((name for all_of in (names, agents) for name in all_of if all_of.count(name) > 1), None)
        if not agents or twice is not None:
            raise ValueError(f"the groups {names} have {f'{twice!r} twice' if agents else 'no agents'}: name each once")
        obs = {
            key: stacked(part, len(group.agents))
            for group in members
            for part, key in zip(parts_of(group.obs), group.keys.values(), strict=True)
        }
        seen = tuple(obs)
        total = sum(len(group.agents) for group in members)
        obs |= {ALIVE: MultiBinary(total), ACTING: MultiBinary(total)} if lives else {}
        policy = tuple(obs) if state is not None else ()
        obs |= {STATE: state} if state is not None else {}
        action = Dict({group.name: stacked(group.action, len(group.agents)) for group in members})
        assert seen
        return cls(Dict(obs), action, Groups(policy=policy), tuple(members), reward, lives)

    @property
    def agents(self) -> tuple[str, ...]:
        """Returns the names of all agents, group after group: the order of `alive`, `acting` and agents' columns."""
        return tuple(agent for group in self.members for agent in group.agents)

    def rows_of(self, name: str) -> slice:
        """Returns which of all agents are those of the group `name`."""
        before = 0
        for group in self.members:
            if group.name == name:
                return slice(before, before + len(group.agents))
            before += len(group.agents)
        raise KeyError(name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns that the environment gives with every step."""
        shape = (len(self.agents),)
        rewards = () if self.reward == "shared" else (Column(AGENT_REWARD, shape),)
        ends = (Column(AGENT_TERMINATED, shape, torch.bool), Column(AGENT_TRUNCATED, shape, torch.bool))
        return rewards + (ends if self.lives else ())

    def seen_by(self, group: Literal["policy", "critic"]) -> Spec:
        seen = super().seen_by(group)
        return self if seen is self else replace(self, obs=seen.obs, groups=Groups())

    def to_json(self) -> dict:
        members = [
            asdict(group) | {"obs": space_to_json(group.obs), "action": space_to_json(group.action)}
            for group in self.members
        ]
        return super().to_json() | {"team": {"members": members, "reward": self.reward, "lives": self.lives}}

    @classmethod
    def read(cls, spec: Spec, record: dict) -> Self:
        """Returns `spec` with the team in `record`, the entry "team" of a result of `to_json`."""
        members = tuple(
            AgentGroup(
                one["name"],
                tuple(one["agents"]),
                space_from_json(one["obs"]),
                space_from_json(one["action"]),  # pyrefly: ignore (a leaf)
            )
            for one in record["members"]
        )
        return cls(spec.obs, spec.action, spec.groups, members, record["reward"], record["lives"])


def joint(obs: Tree) -> dict[str, Tensor]:
    """Returns a team's observation, which is a dict."""
    assert isinstance(obs, dict)
    return obs


def parts_of(space: Space) -> list[Leaf]:
    return list(space.spaces.values()) if isinstance(space, Dict) else [space]


def stacked(space: Leaf, num: int) -> Leaf:
    """Returns the space of `num` elements of `space`, stacked; raises a ValueError for kinds that cannot be."""
    match space:
        case Box():
            return Box((num, *space.shape), space.low * num, space.high * num, space.dtype)
        case Discrete():
            return MultiDiscrete((space.num,) * num)
        case MultiBinary():
            return Box((num, space.num), (0.0,) * space.num * num, (1.0,) * space.num * num)
    raise ValueError(f"{space} is not supported for agents: use Box, Discrete or MultiBinary")
