"""The managed classes that users work with: one generic agent, and one class per algorithm."""

from rl_training.api import names
from rl_training.api.agent import Agent, load
from rl_training.api.hub_card import write_hub_card
from rl_training.api.make_data import make_data
from rl_training.api.make_like import make_data_like
from rl_training.api.names import *  # noqa: F403  (a name for every algorithm; `names.pyi` lists them)
from rl_training.api.stacked import Stacked, stacked
from rl_training.experiment.run import TrainResult

__all__ = ["Agent", "Stacked", "TrainResult", "load", "make_data", "make_data_like", "stacked", "write_hub_card"]
__all__ += names.__all__
