"""Tasks with goals as tensor code: any step can be judged by any goal, on the device, after the fact."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec
from rl_training.core.goals import ACHIEVED, DESIRED, OBSERVATION
from rl_training.envs.drawing import draw_bits, draw_reach
from rl_training.envs.episode_columns import SUCCESS
from rl_training.envs.native import GoalDynamics

MOST_BITS = 1024


class BitFlip(GoalDynamics):
    """A task of flipping one of `num_bits` bits per step until they equal the goal.

    The task is from Andrychowicz et al., 2017 (arXiv:1707.01495). The reward is -1 for every step that does not reach
    the goal and 0 for one that does. An episode ends at the goal, or after `num_bits` steps.
    """

    render_fps = 3

    def __init__(self, num_bits: int = 15) -> None:
        if isinstance(num_bits, bool) or not isinstance(num_bits, int) or not 1 <= num_bits <= MOST_BITS:
            raise ValueError(f"env.kwargs.num_bits={num_bits!r} must be a whole number from 1 to {MOST_BITS}")
        bits = Box((num_bits,), (0.0,) * num_bits, (1.0,) * num_bits)
        self.num_bits = self.max_episode_steps = num_bits
        self.num_random = 2 * num_bits
        self.spec = Spec(Dict({OBSERVATION: bits, ACHIEVED: bits, DESIRED: bits}), Discrete(num_bits))

    def initial(self, uniform: Tensor) -> Tensor:
        return (uniform < 0.5).to(uniform.dtype)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        bits, goal = state.split(self.num_bits, -1)
        return {OBSERVATION: bits, ACHIEVED: bits, DESIRED: goal}

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bits, goal = state.split(self.num_bits, -1)
        flipped = torch.arange(self.num_bits, device=state.device) == action.unsqueeze(-1)
        bits = torch.where(flipped, 1 - bits, bits)
        return torch.cat([bits, goal], -1), *self.judge(bits, goal)

    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        reached = (achieved == desired).all(-1)
        return reached.to(achieved.dtype) - 1, reached

    def info(self, state: Tensor) -> dict[str, Tensor]:
        bits, goal = state.split(self.num_bits, -1)
        return {SUCCESS: (bits == goal).all(-1)}

    def render(self, state: Tensor) -> np.ndarray:
        bits, goal = state.bool().split(self.num_bits)
        return draw_bits(bits.tolist(), goal.tolist())


class PointReach(GoalDynamics):
    """A task of moving a point in a square to a goal and staying there.

    It never terminates, like gymnasium-robotics' Fetch tasks. A step moves the point by at most 0.1 along each axis.
    The reward is 0 within `threshold` of the goal, -1 elsewhere.
    """

    max_episode_steps = 50
    num_random = 4
    render_fps = 10
    speed = 0.1
    plane = Box((2,), (-1.0, -1.0), (1.0, 1.0))
    spec = Spec(Dict({OBSERVATION: plane, ACHIEVED: plane, DESIRED: plane}), plane)

    def __init__(self, threshold: float = 0.05) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise ValueError(f"env.kwargs.threshold={threshold!r} must be a number between 0 and 1")
        self.threshold = threshold

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform * 2 - 1

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        position, goal = state.split(2, -1)
        return {OBSERVATION: position, ACHIEVED: position, DESIRED: goal}

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        position, goal = state.split(2, -1)
        position = (position + self.speed * action.clamp(-1.0, 1.0)).clamp(-1.0, 1.0)
        return torch.cat([position, goal], -1), *self.judge(position, goal)

    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        near = (achieved - desired).square().sum(-1) <= self.threshold**2
        return near.to(achieved.dtype) - 1, torch.zeros_like(near)

    def info(self, state: Tensor) -> dict[str, Tensor]:
        position, goal = state.split(2, -1)
        return {SUCCESS: self.judge(position, goal)[0] == 0}

    def render(self, state: Tensor) -> np.ndarray:
        x, y, goal_x, goal_y = state.tolist()
        return draw_reach((x, y), (goal_x, goal_y), self.threshold)
