"""The managed classes people use: one generic agent, and one name per algorithm."""

from rl_training.api.agent import Agent, TrainResult, load
from rl_training.api.names import A2C, PPO, TRPO, RecurrentPPO

__all__ = ["A2C", "PPO", "TRPO", "Agent", "RecurrentPPO", "TrainResult", "load"]
