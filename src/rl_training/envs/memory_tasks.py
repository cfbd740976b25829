"""Tasks that need memory, as tensor code; for T-maze and RepeatPrevious the best without memory is known exactly."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec
from rl_training.envs.classic import CartPole, Pendulum
from rl_training.envs.drawing import draw_repeat_previous, draw_t_maze
from rl_training.envs.native import NativeDynamics


class CartPoleNoVelocity(CartPole):
    """CartPole whose observations show 0 for both velocities, which must be inferred from earlier observations."""

    def observe(self, state: Tensor) -> Tensor:
        return state * torch.tensor([1.0, 0.0, 1.0, 0.0], device=state.device)


class PendulumNoVelocity(Pendulum):
    """Pendulum whose observations show 0 for the angular velocity, which must be inferred from earlier observations."""

    def observe(self, state: Tensor) -> Tensor:
        return super().observe(state) * torch.tensor([1.0, 1.0, 0.0], device=state.device)


class TMaze(NativeDynamics):
    """A corridor of `length` steps whose cue at the start says which way to turn at the end (Bakker, 2001).

    Actions: 0 forward, 1 left, 2 right. The return is 1 for the right turn and 0 otherwise, so it is the success rate:
    exactly one half for the best policy without memory.
    """

    num_random = 1
    render_fps = 4
    spec = Spec(Box((3,), (-1.0, 0.0, 0.0), (1.0, 1.0, 1.0)), Discrete(3))

    def __init__(self, length: int = 8) -> None:
        self.length, self.max_episode_steps = length, 4 * length

    def initial(self, uniform: Tensor) -> Tensor:
        cue = torch.where(uniform < 0.5, -1.0, 1.0)
        return torch.cat([torch.zeros_like(cue), cue], -1)

    def observe(self, state: Tensor) -> Tensor:
        position, cue = state.unbind(-1)
        at_end = (position >= self.length).to(state.dtype)
        return torch.stack([torch.where(position == 0, cue, 0.0), at_end, 1 - at_end], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        position, cue = state.unbind(-1)
        at_end = position >= self.length
        turned = at_end & (action > 0)
        right = torch.where(action == 1, -1.0, 1.0) == cue
        position = torch.where(~at_end & (action == 0), position + 1, position)
        return torch.stack([position, cue], -1), (turned & right).to(state.dtype), turned

    def render(self, state: Tensor) -> np.ndarray:
        position, cue = state.tolist()
        return draw_t_maze(self.length, position, right=cue > 0)


class RepeatPrevious(NativeDynamics):
    """A task of repeating which of four symbols was shown `delay` steps ago (Morad et al., 2023, arXiv:2303.01859).

    Each of `num_answers` answers is rewarded with 1/num_answers or -1/num_answers, so a perfect memory returns 1 and
    the best policy without one -0.5.
    """

    num_symbols = 4
    render_fps = 2
    spec = Spec(Box((4,), (0.0,) * 4, (1.0,) * 4), Discrete(4))

    def __init__(self, delay: int = 4, num_answers: int = 28) -> None:
        self.delay, self.num_answers = delay, num_answers
        self.max_episode_steps = delay + num_answers + 1  # never reached: the last answer terminates
        self.num_random = delay + num_answers + 1

    def initial(self, uniform: Tensor) -> Tensor:
        symbols = (uniform * self.num_symbols).floor().clamp(max=self.num_symbols - 1)
        return torch.cat([torch.zeros_like(symbols[..., :1]), symbols], -1)

    def symbol(self, state: Tensor, time: Tensor) -> Tensor:
        return state[..., 1:].gather(-1, time.long().unsqueeze(-1)).squeeze(-1)

    def observe(self, state: Tensor) -> Tensor:
        shown = self.symbol(state, state[..., 0].clamp(max=self.num_random - 1))
        return torch.nn.functional.one_hot(shown.long(), self.num_symbols).to(state.dtype)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        time = state[..., 0]
        wanted = self.symbol(state, (time - self.delay).clamp(min=0))
        answer = torch.where(action == wanted, 1.0, -1.0) / self.num_answers
        reward = torch.where(time >= self.delay, answer, 0.0)
        state = torch.cat([(time + 1).unsqueeze(-1), state[..., 1:]], -1)
        return state, reward, time + 1 >= self.delay + self.num_answers

    def render(self, state: Tensor) -> np.ndarray:
        time, *symbols = (int(number) for number in state.tolist())
        wanted = symbols[time - self.delay] if time >= self.delay else None
        return draw_repeat_previous(symbols[min(time, len(symbols) - 1)], wanted, time)
