"""The base of MinAtar's games: sticky actions, sets of actions, the layout of states, and pictures."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec
from rl_training.envs.native import RandomDynamics

SIZE = 10  # cells along a side of the screen
CELLS = SIZE * SIZE
SCALE = 16  # pixels along a side of a cell, where a state is rendered
ACTIONS = ("noop", "left", "up", "right", "down", "fire")
COLOURS = (  # of the channels; a cell shows the last of those that are set there
    (86, 180, 233),
    (230, 159, 0),
    (213, 94, 0),
    (0, 158, 115),
    (240, 228, 66),
    (204, 121, 167),
    (148, 103, 189),
    (127, 127, 127),
    (255, 255, 255),
    (0, 114, 178),
)


class MinAtarGame(RandomDynamics):
    """Base of a game of 10 x 10 cells, observed as one plane of zeros and ones for each kind of thing in it.

    States are `last action, then fields`; `fields` are the sizes of a game's parts, in order. With the probability
    `sticky_action_prob` a step repeats the action of the step before (none in the first step of an episode).
    `minimal_actions=False` gives all six actions. Games without a ramp ignore `difficulty_ramping`.
    """

    channels: tuple[str, ...]
    useful_actions: tuple[str, ...]  # the others do nothing
    fields: tuple[int, ...]
    num_chances: int = 0  # uniform numbers that the rules of a step take
    max_episode_steps = 5_000  # the games have no limit; this one cuts an episode that would never end

    def __init__(
        self, sticky_action_prob: float = 0.1, difficulty_ramping: bool = True, minimal_actions: bool = True
    ) -> None:
        if not 0 <= sticky_action_prob <= 1:
            raise ValueError(f"env.kwargs.sticky_action_prob={sticky_action_prob} must be a number from 0 to 1")
        self.sticky_action_prob, self.ramping = sticky_action_prob, difficulty_ramping
        self.actions = self.useful_actions if minimal_actions else ACTIONS
        shape = (SIZE, SIZE, len(self.channels))
        size = CELLS * len(self.channels)
        self.spec = Spec(Box(shape, (0.0,) * size, (1.0,) * size, "uint8"), Discrete(len(self.actions)))

    @property
    def protocol(self) -> dict[str, object]:
        return {
            "sticky": self.sticky_action_prob,
            "difficulty_ramping": self.ramping,
            "actions": len(self.actions),
        }

    @property
    def num_step_random(self) -> int:  # pyrefly: ignore  (of each game, and never set)
        return 1 + self.num_chances

    @abstractmethod
    def start(self, uniform: Tensor) -> list[Tensor]:
        """Returns the fields of first states, each [num_envs, size], of numbers [num_envs, num_random]."""

    @abstractmethod
    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """Returns the next fields, and the reward and the bool `terminated`, [num_envs] each.

        `action` [num_envs, 1] is the one that takes effect; `uniform` is [num_envs, num_chances].
        """

    @abstractmethod
    def paint(self, fields: list[Tensor]) -> Tensor:
        """Returns the planes of states as uint8 zeros and ones, [num_envs, 10, 10, channels]."""

    def chosen(self, action: Tensor, name: str) -> Tensor:
        """Returns where `action` is the one of that name; nowhere if this set of actions lacks it."""
        return action == (self.actions.index(name) if name in self.actions else -1)

    def split(self, state: Tensor) -> list[Tensor]:
        return list(state.split([1, *self.fields], -1))

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.cat([uniform.new_zeros(len(uniform), 1), *self.start(uniform)], -1)

    def step(self, state: Tensor, action: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        last, *fields = self.split(state)
        action = torch.where(uniform[:, :1] < self.sticky_action_prob, last, action.unsqueeze(-1).to(state.dtype))
        fields, reward, terminated = self.play(fields, action, uniform[:, 1:])
        return torch.cat([action, *fields], -1), reward, terminated

    def observe(self, state: Tensor) -> Tensor:
        return self.paint(self.split(state)[1:])

    def render(self, state: Tensor) -> np.ndarray:
        """Returns a picture of the state [state size] of one environment, uint8 [height, width, 3]."""
        planes = self.observe(state.unsqueeze(0))[0].cpu().numpy()
        highest = (planes * np.arange(1, len(self.channels) + 1)).max(-1)
        palette = np.array([(0, 0, 0), *COLOURS], np.uint8)
        return palette[highest].repeat(SCALE, 0).repeat(SCALE, 1)


def where(cell: Tensor) -> Tensor:
    """Returns bool planes [..., 100] that are true at the numbers of cells `cell` [...]; nowhere for others."""
    return cell.unsqueeze(-1) == torch.arange(CELLS, device=cell.device)


def stack_planes(*planes: Tensor) -> Tensor:
    """Returns planes [num_envs, 100] as one observation of zeros and ones, [num_envs, 10, 10, channels]."""
    return torch.stack([plane > 0 for plane in planes], -1).to(torch.uint8).unflatten(1, (SIZE, SIZE))
