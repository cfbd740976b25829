"""Gymnasium's classic control tasks as batched tensor code; a test compares every step with gymnasium's.

States are kept in float32, where gymnasium keeps most of them in float64: a single step agrees to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec
from rl_training.envs.drawing import draw_acrobot, draw_cart_pole, draw_mountain_car, draw_pendulum
from rl_training.envs.native import NativeDynamics

INF = math.inf


def symmetric(*high: float) -> Box:
    return Box((len(high),), tuple(-h for h in high), high)


class CartPole(NativeDynamics):
    """Gymnasium's CartPole-v1 as tensor code: balance a pole on a cart, reward 1 per step (Barto et al., 1983)."""

    max_episode_steps = 500
    num_random = 4
    render_fps = 50
    max_angle = 12 * 2 * math.pi / 360
    max_position = 2.4
    spec = Spec(symmetric(2 * max_position, INF, 2 * max_angle, INF), Discrete(2))

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform * 0.1 - 0.05

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        position, velocity, angle, angular_velocity = state.unbind(-1)
        mass, pole_mass, half_length, dt = 1.1, 0.1, 0.5, 0.02
        force = torch.where(action == 1, 10.0, -10.0)
        cos, sin = angle.cos(), angle.sin()
        push = (force + pole_mass * half_length * angular_velocity.square() * sin) / mass
        angular_acceleration = (9.8 * sin - cos * push) / (half_length * (4.0 / 3.0 - pole_mass * cos.square() / mass))
        acceleration = push - pole_mass * half_length * angular_acceleration * cos / mass
        position = position + dt * velocity
        velocity = velocity + dt * acceleration
        angle = angle + dt * angular_velocity
        angular_velocity = angular_velocity + dt * angular_acceleration
        terminated = (position.abs() > self.max_position) | (angle.abs() > self.max_angle)
        return torch.stack([position, velocity, angle, angular_velocity], -1), torch.ones_like(position), terminated

    def render(self, state: Tensor) -> np.ndarray:
        position, _, angle, _ = state.tolist()
        return draw_cart_pole(position, angle, self.max_position)


class Acrobot(NativeDynamics):
    """Gymnasium's Acrobot-v1 as tensor code: swing two links above a line, reward -1 per step (Sutton, 1996)."""

    max_episode_steps = 500
    num_random = 4
    render_fps = 15
    max_velocity = (4 * math.pi, 9 * math.pi)
    spec = Spec(symmetric(1.0, 1.0, 1.0, 1.0, *max_velocity), Discrete(3))

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform * 0.2 - 0.1

    def observe(self, state: Tensor) -> Tensor:
        first, second, *velocities = state.unbind(-1)
        return torch.stack([first.cos(), first.sin(), second.cos(), second.sin(), *velocities], -1)

    def derivative(self, state: Tensor, torque: Tensor) -> Tensor:
        """Returns the time derivative of states [..., 4], two angles and two velocities, under a torque [...].

        It has the shape of `state`. The equations are those of Sutton & Barto's book; masses, lengths and inertias are
        1, and the centres of mass at half length.
        """
        first, second, first_velocity, second_velocity = state.unbind(-1)
        gravity = 9.8
        d1 = 0.25 + (1.25 + second.cos()) + 2.0
        d2 = (0.25 + 0.5 * second.cos()) + 1.0
        phi2 = 0.5 * gravity * (first + second - math.pi / 2).cos()
        phi1 = (
            -0.5 * second_velocity.square() * second.sin()
            - second_velocity * first_velocity * second.sin()
            + 1.5 * gravity * (first - math.pi / 2).cos()
            + phi2
        )
        second_acceleration = (torque + d2 / d1 * phi1 - 0.5 * first_velocity.square() * second.sin() - phi2) / (
            1.25 - d2.square() / d1
        )
        first_acceleration = -(d2 * second_acceleration + phi1) / d1
        return torch.stack([first_velocity, second_velocity, first_acceleration, second_acceleration], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        torque, dt = (action - 1).to(state.dtype), 0.2
        k1 = self.derivative(state, torque)
        k2 = self.derivative(state + dt / 2 * k1, torque)
        k3 = self.derivative(state + dt / 2 * k2, torque)
        k4 = self.derivative(state + dt * k3, torque)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = torch.remainder(state[..., :2] + math.pi, 2 * math.pi) - math.pi
        velocities = [v.clamp(-m, m) for v, m in zip(state[..., 2:].unbind(-1), self.max_velocity, strict=True)]
        state = torch.cat([angles, torch.stack(velocities, -1)], -1)
        first, second = angles.unbind(-1)
        terminated = -first.cos() - (first + second).cos() > 1.0
        return state, torch.where(terminated, 0.0, -1.0), terminated

    def render(self, state: Tensor) -> np.ndarray:
        first, second, *_ = state.tolist()
        return draw_acrobot(first, second)


class MountainCar(NativeDynamics):
    """Gymnasium's MountainCar-v0 as tensor code: drive a weak car up a hill, reward -1 per step (Moore, 1990)."""

    max_episode_steps = 200
    num_random = 1
    goal = 0.5
    spec = Spec(Box((2,), (-1.2, -0.07), (0.6, 0.07)), Discrete(3))

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.cat([uniform * 0.2 - 0.6, torch.zeros_like(uniform)], -1)

    def drive(self, state: Tensor, push: Tensor) -> tuple[Tensor, Tensor]:
        position, velocity = state.unbind(-1)
        velocity = (velocity + push - 0.0025 * (3 * position).cos()).clamp(-0.07, 0.07)
        position = (position + velocity).clamp(-1.2, 0.6)
        velocity = torch.where((position <= -1.2) & (velocity < 0), 0.0, velocity)
        return torch.stack([position, velocity], -1), (position >= self.goal) & (velocity >= 0)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state, terminated = self.drive(state, (action - 1) * 0.001)
        return state, torch.full_like(state[..., 0], -1.0), terminated

    def render(self, state: Tensor) -> np.ndarray:
        return draw_mountain_car(float(state[0]), self.goal)


class MountainCarContinuous(MountainCar):
    """Gymnasium's MountainCarContinuous-v0 as tensor code: force in [-1, 1] costs reward, the hilltop gives 100."""

    max_episode_steps = 999
    goal = 0.45
    spec = Spec(Box((2,), (-1.2, -0.07), (0.6, 0.07)), symmetric(1.0))

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        force = action[..., 0].clamp(-1.0, 1.0)
        state, terminated = self.drive(state, force * 0.0015)
        return state, torch.where(terminated, 100.0, 0.0) - 0.1 * action[..., 0].square(), terminated


class Pendulum(NativeDynamics):
    """Gymnasium's Pendulum-v1 as tensor code: swing a pendulum up by a torque in [-2, 2]; it never terminates."""

    max_episode_steps = 200
    num_random = 2
    spec = Spec(symmetric(1.0, 1.0, 8.0), symmetric(2.0))

    def initial(self, uniform: Tensor) -> Tensor:
        angle, velocity = (uniform * 2 - 1).unbind(-1)
        return torch.stack([angle * math.pi, velocity], -1)

    def observe(self, state: Tensor) -> Tensor:
        angle, velocity = state.unbind(-1)
        return torch.stack([angle.cos(), angle.sin(), velocity], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle, velocity = state.unbind(-1)
        torque = action[..., 0].clamp(-2.0, 2.0)
        wrapped = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        reward = -(wrapped.square() + 0.1 * velocity.square() + 0.001 * torque.square())
        velocity = (velocity + (15.0 * angle.sin() + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
        angle = angle + velocity * 0.05
        return torch.stack([angle, velocity], -1), reward, torch.zeros_like(angle, dtype=torch.bool)

    def render(self, state: Tensor) -> np.ndarray:
        return draw_pendulum(float(state[0]))
