"""MinAtar's Space Invaders as tensor code."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rl_training.envs.minatar.game import CELLS, SIZE, MinAtarGame, stack_planes, where

RELOAD = 5  # steps from one shot of the cannon to the next
ALIENS_RELOAD = 10
SLOWEST, FASTEST = 12, 6  # steps between moves of the first wave, and of those that ramping ends with
BOTTOM = CELLS - SIZE  # the first cell of the last row
NEVER = 1e4  # more than any distance


class SpaceInvaders(MinAtarGame):
    """A cannon at the bottom shoots at aliens that march to the side and down; each one that it hits pays 1.

    The alien nearest to the cannon's column shoots back. The fewer are left, the faster they march, and with ramping
    every new wave is faster. The episode ends when an alien or a shot meets the cannon, or when they reach the bottom.
    """

    channels = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    useful_actions = ("noop", "left", "right", "fire")
    fields = (1, 1, 1, 1, 1, 1, CELLS, CELLS, CELLS)
    # Column, steps to the next shot; of the aliens: direction, interval of moves, steps to a move and to a shot; aliens,
    # shots upwards, shots downwards.
    num_random = 0

    def start(self, uniform: Tensor) -> list[Tensor]:
        zero = uniform.new_zeros(len(uniform), 1)
        wave, nothing = wave_like(zero).float().expand(len(zero), -1), zero.expand(-1, CELLS)
        return [zero + 5, zero, zero - 1, zero + SLOWEST, zero + SLOWEST, zero + ALIENS_RELOAD, wave, nothing, nothing]

    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        column, reload, direction, interval, until_move, until_shot, aliens, up, down = fields
        fires = self.chosen(action, "fire") & (reload == 0)
        reload = torch.where(fires, float(RELOAD), reload)
        column = column + self.chosen(action, "right").float() - self.chosen(action, "left").float()
        column = column.clamp(0, SIZE - 1)
        cannon = where(column + BOTTOM).squeeze(1)

        up, down = pad(up[:, SIZE:], (0, SIZE)), pad(down[:, :-SIZE], (SIZE, 0))
        up = torch.where(fires & where(column + BOTTOM - SIZE).squeeze(1), 1.0, up)
        shot = cannon & ((down > 0) | (aliens > 0))

        moves, number = until_move == 0, aliens.sum(-1, keepdim=True)
        until_move = torch.where(moves, torch.minimum(number, interval), until_move)
        grid = aliens.unflatten(-1, (SIZE, SIZE))
        blocked = torch.where(direction < 0, grid[:, :, 0].amax(-1, True), grid[:, :, -1].amax(-1, True)) > 0
        turns = moves & blocked
        landed = turns & (aliens[:, BOTTOM:].amax(-1, True) > 0)
        sideways = torch.where(direction < 0, aliens.roll(-1, -1), aliens.roll(1, -1))  # not beyond a side: not blocked
        aliens = torch.where(turns, aliens.roll(SIZE, -1), torch.where(moves, sideways, aliens))
        direction = torch.where(turns, -direction, direction)
        terminated = (shot | (cannon & (aliens > 0))).any(-1) | landed.squeeze(-1)

        shoots = until_shot == 0
        until_shot = torch.where(shoots, float(ALIENS_RELOAD), until_shot)
        down = torch.where(shoots & nearest(aliens, column), 1.0, down)

        hits = aliens * up
        aliens, up = aliens - hits, up - hits
        cleared = number == hits.sum(-1, keepdim=True)
        if self.ramping:
            interval = torch.where(cleared, (interval - 1).clamp(min=FASTEST), interval)
        aliens = torch.where(cleared & wave_like(aliens), 1.0, aliens)
        fields = [column, (reload - 1).clamp(min=0), direction, interval, until_move - 1, until_shot - 1]
        return [*fields, aliens, up, down], hits.sum(-1), terminated

    def paint(self, fields: list[Tensor]) -> Tensor:
        column, _, direction, _, _, _, aliens, up, down = fields
        cannon = where(column + BOTTOM).squeeze(1)
        left = aliens * (direction < 0)
        return stack_planes(cannon, aliens, left, aliens - left, up, down)


def wave_like(aliens: Tensor) -> Tensor:
    """Returns the cells [100] in which a wave begins: four rows of six, from the top."""
    cell = torch.arange(CELLS, device=aliens.device)
    x = cell % SIZE
    return (cell < 4 * SIZE) & (x >= 2) & (x < 8)


def nearest(aliens: Tensor, column: Tensor) -> Tensor:
    """Returns where the lowest alien of the column nearest to `column` [num_envs, 1] is, bool [num_envs, 100].

    Of two columns equally far away it is the left one.
    """
    cell = torch.arange(CELLS, device=aliens.device)
    x, y = cell % SIZE, cell.div(SIZE, rounding_mode="floor")
    order = (x - column).abs() * (2 * SIZE) + (x > column) * SIZE + (SIZE - 1 - y)
    order = torch.where(aliens > 0, order, NEVER)
    return order == order.amin(-1, keepdim=True)
