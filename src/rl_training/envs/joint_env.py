"""A PettingZoo parallel environment as one gymnasium environment, whose observations and actions are joint.

Its episodes are resumed, watched and stepped in other processes as any gymnasium environment's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from rl_training.core import AgentGroup, Box, Dict, Discrete, Leaf, MultiBinary, MultiDiscrete, TeamSpec
from rl_training.core.teams import ACTING, AGENT_REWARD, AGENT_TERMINATED, AGENT_TRUNCATED, ALIVE, STATE
from rl_training.envs.result_checks import is_one
from rl_training.envs.spaces import convert_space
from rl_training.envs.teams import return_name

MASK = "action_mask"
RESET = "reset", ("observations", "infos")
STEP = "step", ("observations", "rewards", "terminations", "truncations", "infos")


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Settings of environments with several agents: their groups, what the team earns, and whether agents come and go."""

    groups: dict[str, object] = field(default_factory=dict)  # the agents of each group; {}: by names before "_0", "_1"
    reward: Literal["sum", "mean", "shared"] = "sum"  # what the team earns, of its agents' rewards
    lives: bool = False  # agents may die, appear or wait while others go on


class JointEnv(gym.Env):
    """A gymnasium environment of all agents of a PettingZoo parallel environment.

    Actions are the numbers of all agents in one array; `info` holds what each agent earned and where it ended. After
    `limit` steps, all agents who are there are truncated.
    """

    def __init__(self, env: Any, settings: AgentSettings, limit: int | None = None) -> None:
        self.env, self.settings, self.limit = env, settings, limit
        self.elapsed, self.present = 0, set[str]()  # who is there, and was in the last observation if that was cut off
        first, infos = dicts_of(RESET, env.reset(seed=0))
        self.masked = any(isinstance(info, dict) and MASK in info for info in infos.values())
        self.team = self.find_team(first)
        self.names, self.agents = set(env.possible_agents), self.team.agents
        self.returns, self.seen = np.zeros(len(self.agents)), np.zeros(0)
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
        assert isinstance(self.team.obs, Dict)
        self.observation_space = gym.spaces.Dict({k: to_gymnasium(leaf) for k, leaf in self.team.obs.spaces.items()})
        size = sum(len(g.agents) * (g.action.size if isinstance(g.action, Box) else 1) for g in self.team.members)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def find_team(self, first: dict[str, Any]) -> TeamSpec:
        """Returns the spec of the team; raises a ValueError if its groups, spaces or rewards cannot be used."""
        names, members = list(self.env.possible_agents), []
        for group, agents in groups_of(names, self.settings.groups).items():
            spaces = [(self.env.observation_space(name), self.env.action_space(name)) for name in agents]
            other = next((name for name, pair in zip(agents, spaces, strict=True) if pair != spaces[0]), None)
            if other is not None:
                raise ValueError(
                    f"the agents {agents[0]!r} and {other!r} of group {group!r} have unlike spaces, {spaces[0]} and "
                    f"{spaces[agents.index(other)]}: put them into different groups with env.agents.groups"
                )
            obs, action = convert_space(spaces[0][0], role="observation"), convert_space(spaces[0][1], role="action")
            if self.masked:
                if not isinstance(action, Discrete):
                    kind = type(action).__name__
                    raise ValueError(
                        f"the agents of group {group!r} have an {MASK} and {kind} actions: use Discrete ones"
                    )
                own = dict(obs.spaces) if isinstance(obs, Dict) else {"observation": obs}
                obs = Dict(own | {MASK: MultiBinary(action.num)})
            members.append(AgentGroup(group, tuple(agents), obs, action))  # pyrefly: ignore (a leaf)
        space = getattr(self.env, "state_space", None)
        state = None if space is None else convert_space(space, role="observation")
        if state is not None and (isinstance(state, Dict) or not callable(getattr(self.env, "state", None))):
            raise ValueError(
                f"the state_space is {space}, and `state` must return an array in it: give a Box and a method"
            )
        return TeamSpec.of(members, state=state, reward=self.settings.reward, lives=self.settings.lives)  # pyrefly: ignore

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))  # so that an episode follows from the state of our random numbers
        obs, infos = dicts_of(RESET, self.env.reset(seed=drawn, options=options))
        self.check_names((*obs, *self.env.agents))
        if not self.env.agents:
            raise ValueError("`agents` is empty when an episode begins: let `reset` put into it those who are there")
        late = next((name for name in self.agents if name not in self.env.agents), None)
        if late is not None and not self.team.lives:
            raise ValueError(f"the agent {late!r} is not there when an episode begins: set env.agents.lives=true")
        self.returns[:] = 0.0
        self.elapsed, self.present = 0, set(self.env.agents)
        return self.join(obs, infos), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        before = list(self.env.agents)
        obs, rewards, terminated, truncated, infos = dicts_of(STEP, self.env.step(self.split(action, before)))
        self.check_names((*obs, *rewards, *self.env.agents))
        ends, cuts = ([name for name in before if flags.get(name)] for flags in (terminated, truncated))
        cuts = [name for name in cuts if name not in ends]
        self.check_lives(before, ends, cuts)
        self.elapsed += 1
        late = self.limit is not None and self.elapsed >= self.limit and bool(self.env.agents)
        cuts += self.env.agents if late else ()
        over, cut = late or not self.env.agents, late or bool(cuts)
        unseen = next((name for name in cuts if name not in obs), None)
        if unseen is not None:
            raise ValueError(f"the agent {unseen!r} was truncated and has no last observation: return one in that step")
        reward = rewards_of(rewards, self.agents)
        self.returns += reward
        info: dict[str, Any] = {AGENT_REWARD: reward} | self.lives_of(ends, cuts)
        if over and self.team.reward != "shared":
            info |= {return_name(name): total for name, total in zip(self.agents, self.returns.tolist(), strict=True)}
        self.present = {*self.env.agents, *(cuts if over else ())}
        joint = self.join(obs, infos, ended=over and not cut)
        return joint, self.team_reward(reward, before), over and not cut, over and cut, info

    def lives_of(self, ends: list[str], cuts: list[str]) -> dict[str, np.ndarray]:
        if not self.team.lives:
            return {}
        named = {AGENT_TERMINATED: ends, AGENT_TRUNCATED: cuts}
        return {key: np.array([name in some for name in self.agents]) for key, some in named.items()}

    def check_names(self, names: Iterable[str]) -> None:
        """Raises a ValueError if one of the `names` is not among the possible agents."""
        unknown = next((name for name in names if name not in self.names), None)
        if unknown is not None:
            possible = ", ".join(map(repr, self.agents))
            raise ValueError(f"the agent {unknown!r} is not one of possible_agents ({possible}): name it there")

    def check_lives(self, before: list[str], ends: list[str], cuts: list[str]) -> None:
        """Raises a ValueError if agents left without an end, or came or left although `env.agents.lives` is false.

        An agent that has ended may come back in a later step: its last observation is not the first of its next life.
        """
        after = set(self.env.agents)
        left = next((name for name in (*ends, *cuts) if name in after), None)
        if left is not None:
            raise ValueError(
                f"the agent {left!r} has ended and is still in `agents`: remove it in the step in which it ends"
            )
        lost = next((name for name in before if name not in after and name not in (*ends, *cuts)), None)
        if lost is not None:
            raise ValueError(f"the agent {lost!r} left without an end: set its termination or truncation to True then")
        if self.team.lives:
            return
        new = next((name for name in after if name not in before), None)
        alone = next((name for name in (*ends, *cuts) if after), None)
        if new is not None or alone is not None or (ends and cuts):
            what = (
                f"{new!r} appeared in the middle of an episode"
                if new is not None
                else f"{alone!r} ended while others go on"
                if alone is not None
                else f"{ends[0]!r} terminated where {cuts[0]!r} was truncated"
            )
            raise ValueError(f"agents do not live and end together ({what}): set env.agents.lives=true")

    def team_reward(self, reward: np.ndarray, before: list[str]) -> float:
        if self.team.reward == "shared":
            given = [float(reward[self.agents.index(name)]) for name in before]
            if any(one != given[0] for one in given):
                raise ValueError(f"env.agents.reward='shared', and agents earn {given}: use 'sum' or 'mean'")
            return given[0] if given else 0.0
        return float(reward.sum() if self.team.reward == "sum" else reward.mean())

    def split(self, action: np.ndarray, present: list[str]) -> dict[str, Any]:
        """Returns the actions of the agents that are present, by name, from the joint array."""
        found, start = {}, 0
        for group in self.team.members:
            space = group.action
            for name in group.agents:
                stop = start + (space.size if isinstance(space, Box) else 1)
                part, start = action[start:stop], stop
                if name in present and isinstance(space, Box):
                    found[name] = part.reshape(space.shape).astype(self.env.action_space(name).dtype)
                elif name in present:
                    found[name] = int(part[0])
        return found

    def join(self, obs: dict[str, Any], infos: dict[str, Any], *, ended: bool = False) -> dict[str, np.ndarray]:
        """Returns the joint observation; zeros stand for agents that are not there."""
        missing = next((name for name in self.env.agents if name not in obs), None)
        if missing is not None:
            raise ValueError(f"the agent {missing!r} is there and has no observation: return one for all in `agents`")
        rows, acts = {key: [] for key in self.team.obs.spaces}, []  # pyrefly: ignore (a Dict)
        for group in self.team.members:
            for name in group.agents:
                parts = self.parts_of(name, group, obs, infos)
                for part, key in group.keys.items():
                    rows[key].append(parts[part])
                acts.append(name in self.present and (MASK not in parts or bool(parts[MASK].any())))
                if name in self.env.agents and not acts[-1] and not self.team.lives:
                    raise ValueError(
                        f"the action_mask of the agent {name!r} allows no action: let it end, or set env.agents.lives=true, with "
                        "which it waits"
                    )
        joint = {key: np.stack(values) for key, values in rows.items() if values}
        if self.team.lives:
            joint |= {ALIVE: np.array([name in self.present for name in self.agents], np.int8)}
            joint |= {ACTING: np.array(acts, np.int8)}
        return joint | ({STATE: self.read_state(ended=ended)} if STATE in rows else {})

    def read_state(self, *, ended: bool) -> np.ndarray:
        """Returns the global state; that before if all have terminated: nothing is made of it, and not all can tell it."""
        space = self.team.obs.spaces[STATE]  # pyrefly: ignore (a Dict)
        self.seen = self.seen if ended else np.asarray(self.env.state())
        if self.seen.shape != space.shape:
            raise ValueError(f"state() has the shape {self.seen.shape}: return {space.shape}, as the state_space says")
        return self.seen

    def parts_of(
        self, name: str, group: AgentGroup, obs: dict[str, Any], infos: dict[str, Any]
    ) -> dict[str, np.ndarray]:
        """Returns what an agent observes by key, "" for an observation without keys; zeros if it is not there."""
        spaces = group.obs.spaces if isinstance(group.obs, Dict) else {"": group.obs}
        if name not in obs:
            return {key: np.zeros(leaf.shape) for key, leaf in spaces.items()}
        given = obs[name] if isinstance(obs[name], dict) else {"" if "" in spaces else "observation": obs[name]}
        told = infos.get(name) or {}
        if self.masked:
            allowed = told.get(MASK, np.ones(spaces[MASK].shape) * (name in self.present))
            given = given | {MASK: allowed}
        elif MASK in told:
            raise ValueError(f"the info of {name!r} has an {MASK}, and that of `reset` had none: give it there, too")
        found = {}
        for key, leaf in spaces.items():
            if key not in given:
                raise ValueError(
                    f"the agent {name!r} observed {', '.join(map(repr, given))} and no {key!r}: return all keys"
                )
            found[key] = np.asarray(given[key])
            if found[key].shape != leaf.shape:
                raise ValueError(
                    f"the agent {name!r} observed {key or 'an array'} of shape {found[key].shape}, not {leaf.shape}"
                )
            if isinstance(leaf, Discrete):
                found[key] = found[key] - leaf.start
        return found

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


def dicts_of(call: tuple[str, tuple[str, ...]], answer: Any) -> tuple[dict[str, Any], ...]:
    """Returns what a call of an environment returned; raises a ValueError unless it is one dict for each of its parts."""
    method, parts = call
    if isinstance(answer, tuple) and len(answer) == len(parts) and all(isinstance(part, dict) for part in answer):
        return answer
    given = f"({', '.join(type(x).__name__ for x in answer)})" if isinstance(answer, tuple) else type(answer).__name__
    raise ValueError(f"`{method}` returned {given}: return ({', '.join(parts)}), each a dict by agent")


def rewards_of(rewards: dict[str, Any], agents: tuple[str, ...]) -> np.ndarray:
    """Returns the reward of each agent, 0 for those who got none; raises a ValueError if one is not a number."""
    for name in agents:
        if name in rewards and not is_one(rewards[name], "iubf"):
            raise ValueError(f"the agent {name!r} earned {rewards[name]!r}: return a number for each agent")
    return np.array([np.float32(rewards.get(name, 0.0)).item() for name in agents], np.float32)


def groups_of(names: list[str], given: dict[str, object]) -> dict[str, list[str]]:
    """Returns the agents of each group: those in `given`, or of names that differ in a number at the end."""
    if not names:
        raise ValueError("the environment has no possible_agents: name all agents that may ever take part")
    found: dict[str, list[str]] = {}
    if not given:
        for name in names:
            prefix, _, number = name.rpartition("_")
            found.setdefault(prefix if prefix and number.isdigit() else name, []).append(name)
        return found
    for group, agents in given.items():
        if not isinstance(agents, list | tuple) or not agents:
            raise ValueError(f"env.agents.groups.{group}={agents!r} must be a list of agents: {', '.join(names)}")
        found[group] = [str(agent) for agent in agents]
    named = [agent for agents in found.values() for agent in agents]
    wrong = next((name for name in (*named, *names) if named.count(name) != 1 or name not in names), None)
    if wrong is not None:
        why = "is no agent" if wrong not in names else f"is named {named.count(wrong)} times"
        raise ValueError(f"env.agents.groups: {wrong!r} {why}: name each of {', '.join(names)} once")
    return found


def to_gymnasium(leaf: Leaf) -> gym.Space:
    match leaf:
        case Box():
            low, high = (np.array(bound).reshape(leaf.shape) for bound in (leaf.low, leaf.high))
            return gym.spaces.Box(low.astype(leaf.dtype), high.astype(leaf.dtype), leaf.shape, np.dtype(leaf.dtype))
        case MultiDiscrete():
            return gym.spaces.MultiDiscrete(list(leaf.nums))
        case MultiBinary():
            return gym.spaces.MultiBinary(leaf.num)
        case Discrete():
            return gym.spaces.Discrete(leaf.num, start=leaf.start)


def flat_actions(action: Tensor | dict[str, Tensor], lead: int = 1) -> Tensor:
    """Returns joint actions, [..., agents, ...] by group, as one array of numbers [..., size] for a `JointEnv`.

    `lead` counts the dimensions before the agents. Other actions are returned as they are.
    """
    if isinstance(action, Tensor):
        return action
    return torch.cat([part.flatten(lead).double() for part in action.values()], -1)
