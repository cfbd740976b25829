"""A corridor with goals: steps and an environment in which every achieved goal tells when it was achieved."""

from __future__ import annotations

import random
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec, Transition
from rl_training.core.goals import ACHIEVED, DESIRED, OBSERVATION, GoalRewards
from rl_training.experience import Replay
from tests.replays import build_replay

LINE = Box((1,), (-np.inf,), (np.inf,))
SPEC = Spec(Dict({OBSERVATION: LINE, ACHIEVED: LINE, DESIRED: LINE}), Discrete(3))
FAR = 1e6  # a goal that nobody achieves
LONGEST = 400  # steps of an episode
GAMMA = 0.9


def judge(achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
    """The distance as a penalty; an episode is over at the goal."""
    distance = (achieved - desired).abs().squeeze(-1)
    return -distance, distance == 0


class Moment(NamedTuple):
    """One step of the recorded walk."""

    env: int
    episode: int  # of the environment
    time: int  # in the episode


class Walk(NamedTuple):
    """Steps, and by their observation, which is a number that occurs once, which step of which episode they are."""

    steps: Transition
    moments: dict[float, Moment]
    positions: dict[tuple[int, int], list[float]]  # of an environment's episode: what its steps achieved
    goals: dict[tuple[int, int], float]
    ended: set[tuple[int, int]]


def walk(num_steps: int, num_envs: int, *, seed: int = 0, terminated: float = 0.06, truncated: float = 0.1) -> Walk:
    """Moves forward by 1 to 3 per step, so that no two steps of an episode achieve the same."""
    rng, rows = random.Random(seed), []
    moments, positions, goals, ended = {}, {}, {}, set()

    def plan() -> tuple[list[float], bool]:
        """An episode: what its steps achieve, and whether it ends at its goal."""
        achieved = [0.0]
        while len(achieved) <= LONGEST:
            achieved.append(achieved[-1] + rng.randint(1, 3))
            over, cut = rng.random() < terminated, rng.random() < truncated
            if over or cut:
                return achieved, over
        return achieved, False

    episodes = [(0, 0, *plan()) for _ in range(num_envs)]  # number, time, and the plan
    for _ in range(num_steps):
        row = []
        for env, (episode, time, achieved, over) in enumerate(episodes):
            tag = 100_000.0 * env + 1_000.0 * episode + 2 * time + 1  # 0 is in rows that nobody has written
            goal, after, last = achieved[-1] if over else FAR, achieved[time + 1], time + 2 == len(achieved)
            moments[tag], goals[env, episode] = Moment(env, episode, time), goal
            positions.setdefault((env, episode), []).append(after)
            row.append(
                (tag, achieved[time], goal, tag + 1, after, -abs(after - goal), last and over, last and not over)
            )
            if last:
                ended.add((env, episode))
            episodes[env] = (episode + 1, 0, *plan()) if last else (episode, time + 1, achieved, over)
        rows.append(row)
    table = torch.tensor(rows, dtype=torch.float32)
    tag, position, goal, following, after, reward, over, cut = table.unbind(-1)
    steps = Transition(
        {OBSERVATION: tag[..., None], ACHIEVED: position[..., None], DESIRED: goal[..., None]},
        tag.long() % 3,
        torch.zeros_like(tag),
        reward,
        {OBSERVATION: following[..., None], ACHIEVED: after[..., None], DESIRED: goal[..., None]},
        over > 0,
        cut > 0,
        torch.ones_like(tag, dtype=torch.bool),
        {},
    )
    return Walk(steps, moments, positions, goals, ended)


def goal_replay(num_envs: int, capacity: int, *, tensor_code: bool = True, spec: Spec = SPEC, **settings) -> Replay:
    settings = {"learning_starts": 1, "train_freq": num_envs, "gamma": GAMMA, "seed": 0} | settings
    return build_replay(spec, num_envs, buffer_size=capacity, goals=GoalRewards(judge, tensor_code), **settings)


class Corridor(gym.Env):
    """Cells in a row; the goal is one of them. `compute_terminated` takes one goal at a time, `compute_reward` many."""

    def __init__(self, length: int = 8, *, ends: bool = True) -> None:
        cell = gym.spaces.Box(0, length, (1,), np.float64)
        self.observation_space = gym.spaces.Dict({OBSERVATION: cell, ACHIEVED: cell, DESIRED: cell})
        self.action_space = gym.spaces.Discrete(2)
        self.length, self.ends, self.asked = length, ends, 0

    def observe(self) -> dict[str, np.ndarray]:
        position = np.array([self.position])
        return {OBSERVATION: position, ACHIEVED: position.copy(), DESIRED: np.array([self.goal])}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.position, self.goal = 0.0, float(self.np_random.integers(1, self.length + 1))
        self.time = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        self.position = float(np.clip(self.position + (1 if action else -1), 0, self.length))
        self.time += 1
        obs = self.observe()
        goals = obs[ACHIEVED], obs[DESIRED], {}
        reached = bool(self.position == self.goal)
        return (
            obs,
            float(self.compute_reward(*goals)),
            self.compute_terminated(*goals),
            self.time >= 12,
            {"is_success": reached},
        )

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        self.asked += 1
        return -(np.abs(achieved - desired)[..., 0] > 0.5).astype(np.float64)

    def compute_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> bool:
        return self.ends and bool(np.abs(achieved - desired).max() < 0.5)

    def compute_truncated(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> bool:
        return False


class SidewaysCorridor(Corridor):
    """The same with a continuous action."""

    def __init__(self, length: int = 8, *, ends: bool = True) -> None:
        super().__init__(length, ends=ends)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        return super().step(int(action[0] > 0))
