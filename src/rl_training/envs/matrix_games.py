"""Matrix games and the two-step game as tensor code: small tasks for teams, whose right answers are known.

Climbing and penalty: Claus and Boutilier, 1998. The two-step game: Rashid et al., 2018, arXiv:1803.11485, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.core import Box, Discrete
from rl_training.core.teams import AgentGroup, TeamSpec
from rl_training.envs.teams import TeamDynamics, TeamStep

Payoff = Sequence[Sequence[float]]
CLIMBING = ((11.0, -30.0, 0.0), (-30.0, 7.0, 0.0), (0.0, 6.0, 5.0))


def one_hot_box(num: int) -> Box:
    return Box((num,), (0.0,) * num, (1.0,) * num)


def two_players(choices: int, num_states: int) -> TeamSpec:
    """Returns the spec of two agents with `choices` actions, who see which of `num_states` states they are in."""
    players = AgentGroup("player", ("player_0", "player_1"), one_hot_box(num_states), Discrete(choices))
    return TeamSpec.of([players], state=one_hot_box(num_states))


class MatrixGame(TeamDynamics):
    """Two agents choose a row and a column of `payoff` at the same time; both earn that number, and it is over."""

    max_episode_steps = 1
    num_random = 0

    def __init__(self, payoff: Payoff = CLIMBING) -> None:
        sizes = [len(row) for row in payoff]
        if not sizes or any(size != len(payoff) for size in sizes):
            raise ValueError(f"payoff has rows of the lengths {sizes}: give as many rows as columns")
        self.payoff = torch.tensor(payoff, dtype=torch.float32)
        self.spec = two_players(len(self.payoff), 1)

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform.new_ones(len(uniform), 1)

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        row, column = action["player"].unbind(-1)
        over = torch.ones(len(state), dtype=torch.bool, device=state.device)
        return TeamStep(state, self.payoff[row, column], over)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        return {"player": state.unsqueeze(1).expand(-1, 2, -1), "state": state}


class Climbing(MatrixGame):
    """The climbing game: the best pair of actions, 11, lies beside the worst, so that agents settle for 5 or 7."""


class Penalty(MatrixGame):
    """The penalty game: two pairs of actions earn 10, and players who mix them up earn `k`."""

    def __init__(self, k: float = -100.0) -> None:
        super().__init__(((k, 0.0, 10.0), (0.0, 2.0, 0.0), (10.0, 0.0, k)))


class TwoStep(TeamDynamics):
    """Player 0 chooses between two matrix games in the first step, which both play in the second.

    One pays 7 whatever they do, the other [[0, 1], [1, 8]]. Methods that add up their agents' values prefer the first.
    """

    max_episode_steps = 2
    num_random = 0
    spec = two_players(2, 3)

    def __init__(self) -> None:
        self.payoff = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform.new_zeros(len(uniform), 1)

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        row, column = action["player"].unbind(-1)
        place = state[:, 0].long()
        reward = self.payoff[place, row, column]
        over = place > 0
        return TeamStep(torch.where(over, place, 1 + row).to(state.dtype).unsqueeze(-1), reward, over)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        place = F.one_hot(state[:, 0].long(), 3).to(state.dtype)
        return {"player": place.unsqueeze(1).expand(-1, 2, -1), "state": place}


MATRIX_GAMES = {"matrix/game": MatrixGame, "matrix/climbing": Climbing, "matrix/penalty": Penalty}
MATRIX_GAMES |= {"matrix/two_step": TwoStep}  # pyrefly: ignore (also a TeamDynamics)
