"""The managed classes people use: one generic agent, and one name per algorithm."""

from rl_training.api.agent import Agent, TrainResult, load
from rl_training.api.names import (
    A2C,
    C51,
    DQN,
    IQN,
    PPO,
    PQN,
    QRDQN,
    TRPO,
    DiscreteSAC,
    DoubleDQN,
    DuelingDQN,
    NoisyDQN,
    NStepDQN,
    PrioritizedDQN,
    RainbowDQN,
    RecurrentPPO,
)

__all__ = [
    "A2C",
    "C51",
    "DQN",
    "IQN",
    "PPO",
    "PQN",
    "QRDQN",
    "TRPO",
    "Agent",
    "DiscreteSAC",
    "DoubleDQN",
    "DuelingDQN",
    "NStepDQN",
    "NoisyDQN",
    "PrioritizedDQN",
    "RainbowDQN",
    "RecurrentPPO",
    "TrainResult",
    "load",
]
