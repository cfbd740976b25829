"""MinAtar's Breakout as tensor code."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rl_training.envs.minatar.game import CELLS, SIZE, MinAtarGame, where

ROWS = 3  # of bricks, from the second row of the screen on
BRICKS = ROWS * SIZE
FLOOR = SIZE - 1


class Breakout(MinAtarGame):
    """A ball that flies diagonally is kept in the game by a paddle; every brick that it breaks pays 1.

    The ball goes through the brick that it meets right after it broke one. New bricks come when all are gone and the
    ball is back at the bottom. The episode ends when the paddle misses it.
    """

    channels = ("paddle", "ball", "trail", "brick")
    useful_actions = ("noop", "left", "right")
    fields = (1, 2, 2, 2, 1, BRICKS)  # paddle; ball, its direction and where it was, x and y each; struck; bricks
    num_random = 1

    def start(self, uniform: Tensor) -> list[Tensor]:
        left, zero = uniform < 0.5, torch.zeros_like(uniform)
        ball = torch.cat([torch.where(left, 0.0, 9.0), zero + 3], -1)
        direction = torch.cat([torch.where(left, 1.0, -1.0), zero + 1], -1)
        return [zero + 4, ball, direction, ball, zero, torch.ones_like(zero).expand(-1, BRICKS)]

    def play(self, fields: list[Tensor], action: Tensor, uniform: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        paddle, ball, direction, _, struck, bricks = fields
        paddle = paddle + self.chosen(action, "right").float() - self.chosen(action, "left").float()
        paddle = paddle.clamp(0, SIZE - 1)
        there = (ball + direction).clamp(0, SIZE - 1)
        bounced = there != ball + direction  # off a side, off the top
        (old_x, old_y), (x, y) = ball.split(1, -1), there.split(1, -1)
        top = bounced[:, 1:]

        met = ((y - 1) * SIZE + x == torch.arange(BRICKS, device=x.device)) & (bricks > 0)
        meets = met.any(-1, keepdim=True) & ~top
        breaks = meets & (struck == 0)
        bricks = torch.where(met & breaks, 0.0, bricks)

        lands = (y == FLOOR) & ~top
        bricks = torch.where(lands & ~bricks.any(-1, keepdim=True), 1.0, bricks)
        below, caught = old_x == paddle, x == paddle  # straight under the ball, or where it would land
        saved = lands & (below | caught)
        y = torch.where(breaks | saved, old_y, y)
        flips_x = bounced[:, :1] ^ (saved & ~below)  # at the paddle's edge it flies back where it came from
        flips = torch.cat([flips_x, top | breaks | saved], -1)
        direction = torch.where(flips, -direction, direction)
        lost = (lands & ~saved).squeeze(-1)
        fields = [paddle, torch.cat([x, y], -1), direction, ball, meets.float(), bricks]
        return fields, breaks.squeeze(-1).float(), lost

    def paint(self, fields: list[Tensor]) -> Tensor:
        paddle, ball, _, trail, _, bricks = fields
        cells = [paddle + FLOOR * SIZE, *(at[:, 1:] * SIZE + at[:, :1] for at in (ball, trail))]
        alone = where(torch.cat(cells, -1))
        wall = pad(bricks, (SIZE, CELLS - SIZE - BRICKS)) > 0
        planes = torch.cat([alone, wall.unsqueeze(1)], 1).to(torch.uint8)
        return planes.transpose(1, 2).unflatten(1, (SIZE, SIZE)).contiguous()
