"""Reinforcement learning from simulators, from logged data, or from both."""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Torch's OpenMP reads this when torch is loaded. By default its threads spin for milliseconds while they wait for each
# other, and beside another busy process two of them hardly move (benchmarks/results/threads.txt).
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

if TYPE_CHECKING:
    from rl_training.api import (
        A2C,
        BC,
        C51,
        DDPG,
        DQN,
        IQN,
        PPO,
        PQN,
        QRDQN,
        REDQ,
        RLPD,
        SAC,
        TD3,
        TQC,
        TRPO,
        Agent,
        CrossQ,
        DiscreteCQL,
        DiscreteSAC,
        DoubleDQN,
        DuelingDQN,
        NoisyDQN,
        NStepDQN,
        PrioritizedDQN,
        RainbowDQN,
        RecurrentPPO,
        TrainResult,
        load,
        make_data,
    )
    from rl_training.data import Dataset
    from rl_training.experiment import CheckpointError, ConfigError, RunConfig
    from rl_training.runtime import Callback, EvalResult, NonFiniteError

# Every public name and where it lives; looked up on first use, so that importing the package stays fast.
HOMES = {
    "A2C": "rl_training.api",
    "Agent": "rl_training.api",
    "BC": "rl_training.api",
    "C51": "rl_training.api",
    "Callback": "rl_training.runtime",
    "CheckpointError": "rl_training.experiment",
    "ConfigError": "rl_training.experiment",
    "CrossQ": "rl_training.api",
    "DDPG": "rl_training.api",
    "DQN": "rl_training.api",
    "Dataset": "rl_training.data",
    "DiscreteCQL": "rl_training.api",
    "DiscreteSAC": "rl_training.api",
    "DoubleDQN": "rl_training.api",
    "DuelingDQN": "rl_training.api",
    "EvalResult": "rl_training.runtime",
    "IQN": "rl_training.api",
    "NStepDQN": "rl_training.api",
    "NoisyDQN": "rl_training.api",
    "NonFiniteError": "rl_training.runtime",
    "PPO": "rl_training.api",
    "PQN": "rl_training.api",
    "PrioritizedDQN": "rl_training.api",
    "QRDQN": "rl_training.api",
    "REDQ": "rl_training.api",
    "RLPD": "rl_training.api",
    "RainbowDQN": "rl_training.api",
    "RecurrentPPO": "rl_training.api",
    "RunConfig": "rl_training.experiment",
    "SAC": "rl_training.api",
    "TD3": "rl_training.api",
    "TQC": "rl_training.api",
    "TRPO": "rl_training.api",
    "TrainResult": "rl_training.api",
    "load": "rl_training.api",
    "make_data": "rl_training.api",
}

__all__ = [
    "A2C",
    "BC",
    "C51",
    "DDPG",
    "DQN",
    "IQN",
    "PPO",
    "PQN",
    "QRDQN",
    "REDQ",
    "RLPD",
    "SAC",
    "TD3",
    "TQC",
    "TRPO",
    "Agent",
    "Callback",
    "CheckpointError",
    "ConfigError",
    "CrossQ",
    "Dataset",
    "DiscreteCQL",
    "DiscreteSAC",
    "DoubleDQN",
    "DuelingDQN",
    "EvalResult",
    "NStepDQN",
    "NoisyDQN",
    "NonFiniteError",
    "PrioritizedDQN",
    "RainbowDQN",
    "RecurrentPPO",
    "RunConfig",
    "TrainResult",
    "load",
    "make_data",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    if name[:1].isupper() or "_" in name.strip("_"):  # no module of ours: what is it called in other libraries?
        advice = import_module("rl_training.experiment.foreign_names").NAMES.get(name)
        if advice:
            raise AttributeError(f"rl_training has no {name}: {advice}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
