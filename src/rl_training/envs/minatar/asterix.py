"""MinAtar's Asterix as tensor code."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.envs.minatar.game import SIZE, MinAtarGame, where

LANES = 8  # each holds one enemy or treasure at most
RAMP = 100  # steps from one rise of the difficulty to the next, less two
SPAWN, MOVE = 10, 5  # steps between entries, and between moves, at first


class Asterix(MinAtarGame):
    """Enemies and treasures cross eight lanes; a treasure pays 1 when it is touched, an enemy ends the episode.

    With ramping they come more often and move faster as time goes by.
    """

    channels = ("player", "enemy", "trail", "gold")
    useful_actions = ("noop", "left", "up", "right", "down")
    fields = (1, 1, 1, 1, 1, 1, 1, 1, LANES, LANES, LANES, LANES)
    # Column and row; steps to the next entry and their number; steps to the next move and their number; steps to the
    # next rise and the number of rises; of the lanes: taken, column, direction, gold.
    num_random = 0
    num_chances = 3  # from the left, gold, lane

    def start(self, uniform: Tensor) -> list[Tensor]:
        zero = uniform.new_zeros(len(uniform), 1)
        numbers = [zero + number for number in (5, 5, SPAWN, SPAWN, MOVE, MOVE, RAMP, 0)]
        return [*numbers, *[zero.expand(-1, LANES)] * 4]

    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        column, row, until_spawn, spawn, until_move, move, until_ramp, ramps, *lanes = fields
        spawns = until_spawn == 0
        until_spawn = torch.where(spawns, spawn, until_spawn)
        taken, x, direction, gold = enter(lanes, spawns, uniform)

        column = column + self.chosen(action, "right").float() - self.chosen(action, "left").float()
        row = row + self.chosen(action, "down").float() - self.chosen(action, "up").float()
        column, row = column.clamp(0, SIZE - 1), row.clamp(1, LANES)

        same_row = row == torch.arange(1, LANES + 1, device=row.device)
        moves = until_move == 0
        until_move = torch.where(moves, move, until_move)
        there = x + direction * moves
        inside = (there >= 0) & (there < SIZE)
        touches = (taken > 0) & same_row & ((x == column) | (there == column))
        collects, dies = touches & (gold > 0), touches & (gold == 0)
        taken = torch.where(inside & ~collects, taken, 0.0)

        if self.ramping:
            harder = (spawn > 1) | (move > 1)
            rises = harder & (until_ramp < 0)
            faster = rises & (torch.remainder(ramps, 2) == 1)
            until_ramp = torch.where(rises, float(RAMP), until_ramp - harder.float())
            move = (move - faster.float()).clamp(min=1)
            spawn = (spawn - rises.float()).clamp(min=1)
            ramps = ramps + rises.float()
        numbers = [column, row, until_spawn - 1, spawn, until_move - 1, move, until_ramp, ramps]
        return [*numbers, taken, there, direction, gold], collects.sum(-1).float(), dies.any(-1)

    def paint(self, fields: list[Tensor]) -> Tensor:
        column, row, *_, taken, x, direction, gold = fields
        taken, behind = taken > 0, x - direction
        cell = torch.arange(SIZE, device=x.device)
        at, trail = (taken.unsqueeze(-1) & (place.unsqueeze(-1) == cell) for place in (x, behind))
        golden = (gold > 0).unsqueeze(-1)
        planes = torch.stack([at & ~golden, trail, at & golden], -1).to(torch.uint8)  # [num_envs, lane, column, plane]
        edge = planes.new_zeros(len(planes), 1, SIZE, 3)
        player = where(row * SIZE + column).view(-1, SIZE, SIZE, 1).to(torch.uint8)
        return torch.cat([player, torch.cat([edge, planes, edge], 1)], -1)


def enter(lanes: list[Tensor], spawns: Tensor, uniform: Tensor) -> list[Tensor]:
    """Returns the lanes' fields after an entry into a random free lane where `spawns` [num_envs, 1], if one is free."""
    taken, x, direction, gold = lanes
    from_left, golden, place = uniform.split(1, -1)
    free = taken == 0
    order, number = free.cumsum(-1), free.sum(-1, keepdim=True)  # counts from 1
    chosen = spawns & free & (order == (place * number).floor() + 1)
    direction = torch.where(chosen, torch.where(from_left < 0.5, 1.0, -1.0), direction)
    x = torch.where(chosen, torch.where(from_left < 0.5, 0.0, SIZE - 1.0), x)
    gold = torch.where(chosen, (golden < 1 / 3).float(), gold)
    return [torch.where(chosen, 1.0, taken), x, direction, gold]
