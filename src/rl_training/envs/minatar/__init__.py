"""MinAtar's five games (Young and Tian, 2019, arXiv:1903.03176) as tensor code."""

from rl_training.envs.minatar.breakout import Breakout
from rl_training.envs.minatar.freeway import Freeway
from rl_training.envs.minatar.game import MinAtarGame

GAMES: dict[str, type[MinAtarGame]] = {
    "Breakout": Breakout,
    "Freeway": Freeway,
}

__all__ = ["GAMES", "Breakout", "Freeway", "MinAtarGame"]
