"""Environments with several agents, written as batched tensor code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Tree
from rl_training.core.teams import AGENT_REWARD, AGENT_TERMINATED, AGENT_TRUNCATED, ALIVE, TeamReward, TeamSpec
from rl_training.envs.native import NativeDynamics, NativeEnv, move_tensors
from rl_training.envs.vector import EnvStep


class TeamStep(NamedTuple):
    """The result of one step of all environments of a team."""

    state: Tensor  # [num_envs, state size]
    reward: Tensor  # [num_envs, agents]; of a spec with the reward "shared", [num_envs]
    over: Tensor  # bool [num_envs]: the episode ends, by the rules of the task
    # Of a spec with `lives`, bool [num_envs, agents]: who has ended in this step, and has a value after it or none.
    terminated: Tensor | None = None
    truncated: Tensor | None = None


class TeamDynamics(ABC):
    """Base of the rules of one environment with several agents, pure functions of tensors; see `NativeDynamics`.

    `spec` names the agents, what they see and do, and how their rewards add up to the team's.
    """

    spec: TeamSpec
    max_episode_steps: int
    num_random: int  # how many uniform numbers a new episode takes
    num_step_random: int = 0  # and every step
    render_fps: float = 10

    @property
    def protocol(self) -> dict[str, object]:
        """Returns the settings on which scores depend, as plain data, which results carry."""
        return {"team_reward": self.spec.reward}

    @abstractmethod
    def initial(self, uniform: Tensor) -> Tensor:
        """Returns first states [num_envs, state size] made of uniform numbers in [0, 1), [num_envs, num_random]."""

    @abstractmethod
    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        """Returns the step from states [num_envs, state size] with actions [num_envs, agents, ...] by group.

        `uniform` are numbers in [0, 1), [num_envs, num_step_random]. Actions of agents that do not act are ignored.
        """

    @abstractmethod
    def observe(self, state: Tensor) -> dict[str, Tensor]:
        """Returns the joint observation: a tensor [num_envs, agents, ...] for every key of `spec.obs`."""

    def render(self, state: Tensor) -> np.ndarray | None:
        """Returns a picture of the state of one environment, uint8 [height, width, 3]; None, as here, if it has none."""
        return None


class CountedDynamics(NativeDynamics):
    """The rules of a team with the returns of its agents so far, which stand at the end of the state."""

    def __init__(self, team: TeamDynamics) -> None:
        self.team, self.spec = team, team.spec
        self.num_random, self.num_step_random = team.num_random, team.num_step_random
        self.max_episode_steps, self.render_fps = team.max_episode_steps, team.render_fps
        agents = () if team.spec.reward == "shared" else team.spec.agents
        self.counted = len(agents)
        self.info_names = tuple(return_name(agent) for agent in agents)

    def split(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the team's state [num_envs, state size] and the returns so far, [num_envs, agents counted]."""
        size = state.shape[-1] - self.counted
        return state[..., :size], state[..., size:]

    def initial(self, uniform: Tensor) -> Tensor:
        state = self.team.initial(uniform)
        return torch.cat([state, state.new_zeros(*state.shape[:-1], self.counted)], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raise TypeError("a team is stepped by NativeTeamEnv")

    def observe(self, state: Tensor) -> Tree:
        return self.team.observe(self.split(state)[0])

    def info(self, state: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.info_names, self.split(state)[1].unbind(-1), strict=True))

    def render(self, state: Tensor) -> np.ndarray | None:
        return self.team.render(self.split(state)[0])


class NativeTeamEnv(NativeEnv):
    """A vector environment of `num_envs` copies of a team's rules, with time limit and restart, on `device`."""

    dynamics: CountedDynamics  # pyrefly: ignore (narrower than the base, and never reassigned)
    spec: TeamSpec  # pyrefly: ignore (likewise)

    def __init__(
        self,
        dynamics: TeamDynamics,
        num_envs: int,
        *,
        max_episode_steps: int | None = None,
        device: torch.device | str = "cpu",
        start: int = 0,
    ) -> None:
        counted = CountedDynamics(dynamics)
        super().__init__(counted, num_envs, max_episode_steps=max_episode_steps, device=device, start=start)
        move_tensors(dynamics, self.device)

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        super().ask_columns((*keys, *self.dynamics.info_names))  # the return of every agent is always told

    def advance(  # pyrefly: ignore[bad-override]  (a team's actions)
        self,
        state: Tensor,
        elapsed: Tensor,
        action: dict[str, Tensor],
        uniform: Tensor,
    ) -> tuple[Tensor, Tensor, EnvStep]:
        dynamics, spec = self.dynamics, self.spec
        before, returns = dynamics.split(state)
        step = dynamics.team.step(before, action, uniform[:, dynamics.num_random :])
        if spec.reward != "shared":
            returns = returns + step.reward
        next_state = torch.cat([step.state, returns], -1)
        if self.filmed:
            self.reached = next_state
        elapsed = elapsed + 1
        late = elapsed >= self.max_episode_steps
        done = step.over | late
        next_obs = dynamics.observe(next_state)
        terminated, truncated, values = step.over, late, {}
        if spec.reward != "shared":
            values[AGENT_REWARD] = step.reward
        if spec.lives:
            ends = agent_ends(step, late, next_obs)  # pyrefly: ignore (a dict)
            values |= dict(zip((AGENT_TERMINATED, AGENT_TRUNCATED), ends, strict=True))
            cut = step.over & ends[1].any(-1)  # where one was only cut off, the team's value goes on
            terminated, truncated = step.over & ~cut, late | cut
        state = torch.where(done.unsqueeze(-1), self.first_states(uniform), next_state).contiguous()
        elapsed = torch.where(done, 0, elapsed)
        columns = self.read_columns(next_state) if self.column_names else {}
        result = EnvStep(
            team_reward(step.reward, spec.reward),
            terminated,
            truncated,
            next_obs,
            dynamics.observe(state),
            self.all_valid,
            columns,
            values=values,
        )
        return state, elapsed, result


def agent_ends(step: TeamStep, late: Tensor, next_obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Returns who has terminated and who was truncated in a step, bool [num_envs, agents].

    At the end of an episode those who are still alive end too: by the task's rules, or else by its time limit.
    """
    assert step.terminated is not None
    assert step.truncated is not None
    left = next_obs[ALIVE].bool()
    terminated = step.terminated | (left & step.over.unsqueeze(-1))
    truncated = step.truncated | (left & (late & ~step.over).unsqueeze(-1))
    return terminated, truncated & ~terminated


def team_reward(reward: Tensor, kind: TeamReward) -> Tensor:
    """Returns the team's reward, [num_envs], from its agents' rewards [num_envs, agents] (shared: [num_envs])."""
    if kind == "shared":
        return reward
    return reward.sum(-1) if kind == "sum" else reward.mean(-1)


def return_name(agent: str) -> str:
    """Returns the name of the column of episodes that holds an agent's return."""
    return f"return_{agent}"
