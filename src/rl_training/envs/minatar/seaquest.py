"""MinAtar's Seaquest as tensor code.

Shots, divers and enemies lie in slots from the newest to the oldest. Each is shifted by one slot when the next one comes,
and has left the screen when it would be shifted out of the last.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.envs.minatar.game import CELLS, SIZE, MinAtarGame

AIR = 200  # steps under water
CREW = 6  # divers that fit in the submarine
RELOAD, ENEMY_RELOAD = 5, 10
SPAWN, DIVER_SPAWN = 20, 30  # steps between arrivals, at first
MOVE, DIVER_MOVE, FASTEST = 5, 5, 2  # steps that an enemy waits between moves, a diver, an enemy at the end of the ramp
SHOTS, DIVERS, ENEMIES = 2, 2, 30  # slots; as many enemies cross the screen at the end of the ramp, one in each step
NOWHERE = -9.0  # the column of what is not there
ROWS = 8  # of enemies and divers, from the second of the screen on


class Seaquest(MinAtarGame):
    """A submarine shoots fish and submarines, each of which pays 1, and brings divers to the surface.

    There it must bring one at least, and gets new air; six divers pay one for each ten percent of the air that is
    left. Every visit to the surface makes enemies come more often and move faster, with ramping. The episode ends
    without air, at the surface without a diver, or when an enemy or a torpedo meets the submarine.
    """

    channels = (
        *("sub_front", "sub_back", "friendly_bullet", "trail", "enemy_bullet"),
        *("enemy_fish", "enemy_sub", "oxygen_guage", "diver_guage", "diver"),
    )
    useful_actions = ("noop", "left", "up", "right", "down", "fire")
    fields = (1,) * 12 + (3 * SHOTS, 4 * DIVERS, 7 * ENEMIES)
    # Column, row, direction; air, crew, whether it is at the surface, steps to the next shot; steps to the next enemy, and
    # from one to the next, to the next diver; wait of enemies between moves, visits to the surface. Then columns, rows and
    # directions of shots; of divers, with what is left of their wait; of enemies, with whether they are submarines, waits,
    # steps to their next torpedo, and the columns of their torpedoes.
    num_random = 0
    num_chances = 5  # of an enemy: from the left, submarine, row; of a diver: from the left, row

    def start(self, uniform: Tensor) -> list[Tensor]:
        zero = uniform.new_zeros(len(uniform), 1)
        numbers = [zero + number for number in (5, 0, -1, AIR, 0, 1, 0, SPAWN, SPAWN, DIVER_SPAWN, MOVE, 0)]
        return [*numbers, *[(zero + NOWHERE).expand(-1, size) for size in self.fields[12:]]]

    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        x, y, facing, air, crew, surfaced, reload, until_enemy, spawn, until_diver, move, visits, *slots = fields
        shots, divers, enemies = (
            slot.unflatten(1, (-1, size)) for slot, size in zip(slots, (SHOTS, DIVERS, ENEMIES), strict=True)
        )
        enemies = add_enemy(enemies, until_enemy == 0, move, uniform[:, :3])
        divers = add_diver(divers, until_diver == 0, uniform[:, 3:])
        until_enemy = torch.where(until_enemy == 0, spawn, until_enemy)
        until_diver = torch.where(until_diver == 0, float(DIVER_SPAWN), until_diver)

        fires = self.chosen(action, "fire") & (reload == 0)
        reload = torch.where(fires, float(RELOAD), reload)
        shots = shift(shots, fires, torch.stack([x, y, facing], 1))
        turn = self.chosen(action, "right").float() - self.chosen(action, "left").float()
        x = (x + turn).clamp(0, SIZE - 1)
        facing = torch.where(turn == 0, facing, turn)
        y = (y + self.chosen(action, "down").float() - self.chosen(action, "up").float()).clamp(0, ROWS)

        shots, enemies, shot = fly(shots, enemies)
        divers, saved = swim(divers, x, y, crew)
        crew = crew + saved
        shots, enemies, rammed, met = advance(shots, enemies, x, y, move)

        up = y == 0
        arrives = up & (surfaced == 0)
        terminated = met | ((air <= 0) | (arrives & (crew == 0))).squeeze(-1)
        returns = arrives & (crew != 0)
        full = returns & (crew == CREW)
        bonus = torch.where(full, tenths(air), 0.0).squeeze(-1)
        air = torch.where(returns, float(AIR), air - (~up).float())
        crew = torch.where(full, 0.0, crew) - returns.float()  # to -1 after a full crew, as the authors' program has it
        if self.ramping:
            rises = returns & ((spawn > 1) | (move > FASTEST))
            move = (move - (rises & (torch.remainder(visits, 2) == 1)).float()).clamp(min=FASTEST)
            spawn = (spawn - rises.float()).clamp(min=1)
            visits = visits + rises.float()
        timers = [(timer - 1).clamp(min=0) for timer in (reload, until_enemy, until_diver)]
        fields = [x, y, facing, air, crew, up.float(), timers[0], timers[1], spawn, timers[2], move, visits]
        return [*fields, *(slot.flatten(1) for slot in (shots, divers, enemies))], shot + rammed + bonus, terminated

    def paint(self, fields: list[Tensor]) -> Tensor:
        x, y, facing, air, crew, *_, shots, divers, enemies = fields
        shot_x, shot_y, _ = shots.unflatten(1, (-1, SHOTS)).unbind(1)
        diver_x, diver_y, diver_way, _ = divers.unflatten(1, (-1, DIVERS)).unbind(1)
        enemy_x, enemy_y, way, submarine, _, _, torpedo = enemies.unflatten(1, (-1, ENEMIES)).unbind(1)
        column = torch.arange(SIZE, device=x.device).expand(len(x), -1)
        oxygen = torch.where(column < tenths(air), column, NOWHERE)
        aboard = torch.where((column >= SIZE - 1 - crew) & (column < SIZE - 1), column, NOWHERE)
        marks = [
            (x, y, 0),
            (x - facing, y, 1),
            (shot_x, shot_y, 2),
            (behind(diver_x, diver_way), diver_y, 3),
            (behind(enemy_x, way), enemy_y, 3),
            (torpedo, enemy_y, 4),
            (enemy_x, enemy_y, 5 + submarine),
            (oxygen, SIZE - 1, 7),
            (aboard, SIZE - 1, 8),
            (diver_x, diver_y, 9),
        ]
        columns = torch.cat([mark[0] for mark in marks], -1)
        number = torch.cat([(row * SIZE + across) * SIZE + channel for across, row, channel in marks], -1)
        outside = SIZE * CELLS  # one more place, for what is not there; the screen has ten channels
        number = torch.where((columns >= 0) & (columns < SIZE), number, outside).long()
        screen = torch.zeros(len(x), outside + 1, dtype=torch.uint8, device=x.device).scatter_(1, number, 1)
        return screen[:, :-1].unflatten(1, (SIZE, SIZE, SIZE)).contiguous()


def tenths(air: Tensor) -> Tensor:
    """Returns how many tenths of the air are left, rounded down; half a step is added because GPUs round divisions."""
    return ((air + 0.5) * (SIZE / AIR)).floor()


def behind(x: Tensor, way: Tensor) -> Tensor:
    return torch.where(x >= 0, x - way, NOWHERE)


def shift(slots: Tensor, comes: Tensor, new: Tensor) -> Tensor:
    """Returns slots [num_envs, values, slot] with `new` [num_envs, values, 1] in the first where `comes` [num_envs, 1].

    The others move to the next slot there, and the last one is gone.
    """
    return torch.where(comes.unsqueeze(-1), torch.cat([new, slots[:, :, :-1]], -1), slots)


def enter(uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns column, direction and row, [num_envs, 1] each, of a swimmer for two numbers [num_envs, 2]."""
    left = uniform[:, :1] < 0.5
    return torch.where(left, 0.0, SIZE - 1.0), torch.where(left, 1.0, -1.0), (uniform[:, 1:] * ROWS).floor() + 1


def add_enemy(enemies: Tensor, comes: Tensor, move: Tensor, uniform: Tensor) -> Tensor:
    """Returns the enemies with a new one where it `comes`; none if others in its row swim against it."""
    x, way, row = enter(uniform[:, ::2])
    submarine = (uniform[:, 1:2] < 1 / 3).float()
    blocked = (enemies[:, 0] >= 0) & (enemies[:, 1] == row) & (enemies[:, 2] != way)
    x = torch.where(blocked.any(-1, keepdim=True), NOWHERE, x)
    nothing = torch.full_like(x, NOWHERE)
    new = torch.stack([x, row, way, submarine, move, torch.full_like(x, ENEMY_RELOAD), nothing], 1)
    return shift(enemies, comes, new)


def add_diver(divers: Tensor, comes: Tensor, uniform: Tensor) -> Tensor:
    x, way, row = enter(uniform)
    return shift(divers, comes, torch.stack([x, row, way, torch.full_like(x, DIVER_MOVE)], 1))


def inside(x: Tensor) -> Tensor:
    """Returns columns, and `NOWHERE` for those beyond the sides."""
    return torch.where((x >= 0) & (x < SIZE), x, NOWHERE)


def hit(shots: Tensor, x: Tensor, y: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    """Returns bool masks of shots [num_envs, shot] that hit, and of enemies [num_envs, enemy] at `x`, `y` that are hit.

    Each shot hits one enemy in its cell: that with the highest `rank`, a positive number.
    """
    meets = (shots[:, 0].unsqueeze(-1) == x.unsqueeze(1)) & (shots[:, 1].unsqueeze(-1) == y.unsqueeze(1))
    score = torch.where(meets & (x >= 0).unsqueeze(1), rank.unsqueeze(1), 0.0)
    best = score.amax(-1, keepdim=True)
    return best.squeeze(-1) > 0, ((score == best) & (score > 0)).any(1)


def fly(shots: Tensor, enemies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Moves the shots; returns shots and enemies without those that met, and the number of enemies hit [num_envs].

    A shot takes the oldest fish in its cell, or else the oldest submarine.
    """
    x, y, way = shots.unbind(1)
    x = inside(x + torch.where(x >= 0, way, 0.0))
    shots = torch.stack([x, y, way], 1)
    age = torch.arange(1, ENEMIES + 1, device=x.device)
    spent, dead = hit(shots, enemies[:, 0], enemies[:, 1], age + ENEMIES * (1 - enemies[:, 3]))
    return remove(shots, spent), remove(enemies, dead), dead.sum(-1).float()


def remove(slots: Tensor, gone: Tensor) -> Tensor:
    return torch.cat([torch.where(gone, NOWHERE, slots[:, 0]).unsqueeze(1), slots[:, 1:]], 1)


def swim(divers: Tensor, x: Tensor, y: Tensor, crew: Tensor) -> tuple[Tensor, Tensor]:
    """Moves the divers; returns those who are not taken aboard at `x`, `y`, and the number of those who are."""
    column, row, way, wait = divers.unbind(1)
    moves = (wait == 0) & (column >= 0)
    there = torch.where(moves, column + way, column)
    met = (row == y) & ((column == x) | (there == x))
    aboard = met & (crew + met.cumsum(-1) <= CREW)  # the newest first
    wait = torch.where(wait == 0, float(DIVER_MOVE), wait - 1)
    column = torch.where(aboard, NOWHERE, inside(there))
    return torch.stack([column, row, way, wait], 1), aboard.sum(-1, keepdim=True).float()


def advance(
    shots: Tensor, enemies: Tensor, x: Tensor, y: Tensor, move: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Moves enemies and torpedoes; returns shots and enemies without those that met, and two tensors [num_envs].

    These are the number of enemies that swam into a shot, and whether one of them or a torpedo met the player at `x`,
    `y`. A shot takes the newest submarine that comes, or else the newest fish.
    """
    column, row, way, submarine, wait, reload, torpedo = enemies.unbind(1)
    there_is = column >= 0
    moves = there_is & (wait == 0)
    there = torch.where(moves, column + way, column)
    wait = torch.where(wait == 0, move, wait - 1)
    newness = ENEMIES - torch.arange(ENEMIES, device=x.device)
    spent, dead = hit(shots, torch.where(moves, there, NOWHERE), row, newness + ENEMIES * submarine)

    fires = there_is & (submarine > 0) & (reload == 0)  # also when it is hit in this step
    reload = torch.where(reload == 0, float(ENEMY_RELOAD), reload - 1)
    origin = torch.where(fires, there, torpedo)
    torpedo = inside(torch.where(origin >= 0, origin + way, NOWHERE))

    here = (column == x) | (there == x) | (origin == x) | (torpedo == x)
    met = (here & (row == y)).any(-1)
    column = torch.where(dead, NOWHERE, inside(there))
    enemies = torch.stack([column, row, way, submarine, wait, reload, torpedo], 1)
    return remove(shots, spent), enemies, dead.sum(-1).float(), met
