"""Reinforcement learning from simulators, from logged data, or from both."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rl_training.api import A2C, PPO, TRPO, Agent, RecurrentPPO, TrainResult, load
    from rl_training.experiment import CheckpointError, ConfigError, RunConfig
    from rl_training.runtime import Callback, EvalResult, NonFiniteError

# Every public name and where it lives; looked up on first use, so that importing the package stays fast.
HOMES = {
    "A2C": "rl_training.api",
    "Agent": "rl_training.api",
    "Callback": "rl_training.runtime",
    "CheckpointError": "rl_training.experiment",
    "ConfigError": "rl_training.experiment",
    "EvalResult": "rl_training.runtime",
    "NonFiniteError": "rl_training.runtime",
    "PPO": "rl_training.api",
    "RecurrentPPO": "rl_training.api",
    "RunConfig": "rl_training.experiment",
    "TRPO": "rl_training.api",
    "TrainResult": "rl_training.api",
    "load": "rl_training.api",
}

__all__ = [
    "A2C",
    "PPO",
    "TRPO",
    "Agent",
    "Callback",
    "CheckpointError",
    "ConfigError",
    "EvalResult",
    "NonFiniteError",
    "RecurrentPPO",
    "RunConfig",
    "TrainResult",
    "load",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
