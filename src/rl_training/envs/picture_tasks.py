"""A task whose observations are pictures, drawn by tensor code: the pendulum."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.core import Box, Spec
from rl_training.envs.classic import Pendulum, symmetric

STEP = 0.05  # seconds of one of Pendulum's steps
LENGTH, HALF_WIDTH = 0.9, 0.12  # of the rod, where the picture reaches from -1 to 1
LEAST, MOST = 8, 256  # pixels along a side


class PixelPendulum(Pendulum):
    """Pendulum seen as pictures: uint8 [size, size, 2], the rod before the last action and now, white on black.

    Two pictures show the velocity. Every action is taken `action_repeat` times, and rewards are summed, so returns are
    those of Pendulum. With `blank` pictures nothing is to be seen, which shows what a policy reaches without its eyes.
    """

    def __init__(self, size: int = 16, action_repeat: int = 2, blank: bool = False) -> None:
        if not LEAST <= size <= MOST:
            raise ValueError(f"env.kwargs.size={size} must be from {LEAST} to {MOST} pixels")
        if not 1 <= action_repeat <= Pendulum.max_episode_steps:
            raise ValueError(
                f"env.kwargs.action_repeat={action_repeat} must be from 1 to {Pendulum.max_episode_steps} steps"
            )
        self.size, self.action_repeat, self.blank = size, action_repeat, blank
        self.max_episode_steps = -(-Pendulum.max_episode_steps // action_repeat)
        shape, number = (size, size, 2), 2 * size * size
        self.spec = Spec(Box(shape, (0.0,) * number, (255.0,) * number, "uint8"), symmetric(2.0))

    def initial(self, uniform: Tensor) -> Tensor:
        """Returns states [num_envs, 3]: angle, velocity, and the angle before; at the start as if it had turned."""
        state = super().initial(uniform)
        angle, velocity = state.unbind(-1)
        return torch.cat([state, (angle - self.action_repeat * STEP * velocity).unsqueeze(-1)], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        physical, reward = state[:, :2], torch.zeros_like(state[:, 0])
        for _ in range(self.action_repeat):
            physical, gained, _ = super().step(physical, action)
            reward = reward + gained
        return torch.cat([physical, state[:, :1]], -1), reward, torch.zeros_like(reward, dtype=torch.bool)

    def observe(self, state: Tensor) -> Tensor:
        angles = state[:, [2, 0]]
        if self.blank:
            return angles.new_zeros(len(angles), self.size, self.size, 2, dtype=torch.uint8)
        return draw_rods(angles, self.size)


def draw_rods(angle: Tensor, size: int) -> Tensor:
    """Returns pictures of rods from the middle, uint8 [num_envs, size, size, rods], for angles [num_envs, rods].

    Angles are counterclockwise from upright. Edges are smooth, so that a pixel tells how much of it the rod covers.
    """
    pixel = 2 / size
    places = (torch.arange(size, device=angle.device) + 0.5) * pixel - 1
    x, y = places.view(1, size, 1), -places.view(size, 1, 1)  # [row, column, rod]; rows go down
    cos, sin = (part.view(-1, 1, 1, angle.shape[-1]) for part in (angle.cos(), angle.sin()))
    along, across = y * cos - x * sin, x * cos + y * sin
    beyond = along - along.clamp(0, LENGTH)
    covered = (HALF_WIDTH - (beyond.square() + across.square()).sqrt()) / pixel + 0.5
    return (255 * covered.clamp(0, 1)).round().to(torch.uint8)
