"""MinAtar's Freeway as tensor code."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rl_training.envs.minatar.game import SIZE, MinAtarGame

CARS = 8  # one in each row but the first and the last
SLOWEST = 5  # steps in which the slowest car moves once
PAUSE = 3  # steps from one move of the chicken to the next
FRAMES = 2_500
COLUMN = 4  # of the chicken
HOME = SIZE - 1


class Freeway(MinAtarGame):
    """A chicken crosses eight lanes; each time it arrives pays 1, and the cars get new speeds and directions.

    A car that hits the chicken sends it back to the bottom. The episode ends after 2,501 steps.
    """

    channels = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
    useful_actions = ("noop", "up", "down")
    fields = (1, 1, 1, CARS, CARS, CARS)  # row, pause, frames left; of the cars: columns, waits, signed periods
    num_random = CARS
    num_chances = CARS

    def start(self, uniform: Tensor) -> list[Tensor]:
        zero, period = torch.zeros_like(uniform[:, :1]), draw_periods(uniform)
        return [zero + HOME, zero + PAUSE, zero + FRAMES, torch.zeros_like(period), period.abs(), period]

    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        row, pause, left, x, wait, period = fields
        move = self.chosen(action, "down").float() - self.chosen(action, "up").float()
        moves = (pause == 0) & (move != 0)
        pause = torch.where(moves, float(PAUSE), pause)
        row = torch.where(moves, (row + move).clamp(max=HOME), row)

        arrived = row == 0
        row = torch.where(arrived, float(HOME), row)
        new = draw_periods(uniform)
        period, wait = torch.where(arrived, new, period), torch.where(arrived, new.abs(), wait)

        drives = wait == 0
        there = torch.where(drives, torch.remainder(x + period.sign(), SIZE), x)
        wait = torch.where(drives, period.abs(), wait - 1)
        hit = (row == lanes(x)) & ((x == COLUMN) | (there == COLUMN))
        row = torch.where(hit.any(-1, keepdim=True), float(HOME), row)
        left = left - 1
        fields = [row, (pause - 1).clamp(min=0), left, there, wait, period]
        return fields, arrived.squeeze(-1).float(), left.squeeze(-1) < 0

    def paint(self, fields: list[Tensor]) -> Tensor:
        row, _, _, x, _, period = fields
        numbers = torch.arange(SIZE, device=row.device)
        behind = torch.remainder(x - period.sign(), SIZE)
        speeds = (period.abs().unsqueeze(-1) == numbers[1 : SLOWEST + 1]).unsqueeze(-2)  # [num_envs, car, 1, speed]
        car = (x.unsqueeze(-1) == numbers).unsqueeze(-1)  # [num_envs, car, column, 1]
        trail = (behind.unsqueeze(-1) == numbers).unsqueeze(-1) & speeds
        traffic = pad(torch.cat([car, trail], -1).to(torch.uint8), (0, 0, 0, 0, 1, 1))
        chicken = (row == numbers).unsqueeze(-1) & (numbers == COLUMN)
        return torch.cat([chicken.unsqueeze(-1).to(torch.uint8), traffic], -1)


def lanes(x: Tensor) -> Tensor:
    """Returns the rows of the cars whose columns are `x`, [8]."""
    return torch.arange(1, CARS + 1, device=x.device)


def draw_periods(uniform: Tensor) -> Tensor:
    """Returns steps between moves, 1 to 5, negative for cars that drive to the left, one for each number in [0, 1)."""
    number = (uniform * (2 * SLOWEST)).floor()
    period = torch.remainder(number, SLOWEST) + 1
    return torch.where(number < SLOWEST, -period, period)
