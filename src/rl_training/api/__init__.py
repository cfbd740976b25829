"""The managed classes people use: one generic agent, and one name per algorithm."""

from rl_training.api.agent import Agent, TrainResult, load
from rl_training.api.names import A2C, PPO

__all__ = ["A2C", "PPO", "Agent", "TrainResult", "load"]
