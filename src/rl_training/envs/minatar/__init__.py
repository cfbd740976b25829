"""MinAtar's five games (Young and Tian, 2019, arXiv:1903.03176) as tensor code."""

from rl_training.envs.minatar.asterix import Asterix
from rl_training.envs.minatar.breakout import Breakout
from rl_training.envs.minatar.freeway import Freeway
from rl_training.envs.minatar.game import MinAtarGame
from rl_training.envs.minatar.seaquest import Seaquest
from rl_training.envs.minatar.space_invaders import SpaceInvaders

GAMES: dict[str, type[MinAtarGame]] = {
    "Asterix": Asterix,
    "Breakout": Breakout,
    "Freeway": Freeway,
    "Seaquest": Seaquest,
    "SpaceInvaders": SpaceInvaders,
}

__all__ = ["GAMES", "Asterix", "Breakout", "Freeway", "MinAtarGame", "Seaquest", "SpaceInvaders"]
