"""Returns of the agent's own steps, which are known once the episode has ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.experience.segments import numbers_between
from rl_training.functional import ENDED, reverse_scan

if TYPE_CHECKING:
    from rl_training.experience.ring import Ring


class EpisodeReturns:
    """An updater of the column `returns` of a replay's ring buffer, the discounted rewards to the end of the episode.

    It is minus infinity for rows of episodes that have not ended.
    """

    def __init__(self, ring: Ring, gamma: float) -> None:
        self.ring, self.gamma = ring, gamma
        self.seen = ring.columns.written.clone()

    @property
    def oldest(self) -> Tensor:
        """Returns the number, counted since the run began, of the oldest row of every environment, [num_envs]."""
        return (self.ring.columns.written - self.ring.slots + 1).clamp(min=0)

    def look(self) -> None:
        """Writes the ring buffer's column `returns` for all episodes that ended since the last call."""
        ring, columns, oldest = self.ring, self.ring.columns, self.oldest
        env, number = numbers_between(torch.maximum(self.seen, oldest), columns.written)
        row = number % ring.slots * ring.num_envs + env
        columns.returns.index_fill_(0, row, -math.inf)
        ended = columns.flags[row] & ENDED != 0
        began = torch.maximum(number - columns.age[row], oldest[env])
        for index, first, last in torch.stack([env, began, number], 1)[ended].tolist():
            episode = torch.arange(first, last + 1, device=ring.device) % ring.slots * ring.num_envs + index
            reward = columns.reward[episode].double()
            columns.returns[episode] = reverse_scan(reward, torch.full_like(reward, self.gamma)).float()
        self.seen = columns.written.clone()

    def look_again(self) -> None:
        """Writes the ring buffer's column `returns` anew, after a checkpoint was read or open episodes were cut."""
        self.seen = torch.zeros_like(self.seen)
        self.look()
