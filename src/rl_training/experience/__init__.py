"""Stores between collection and learning."""

from rl_training.experience.base import Experience, gather
from rl_training.experience.reward_scaling import RewardScaling
from rl_training.experience.rollout import Rollout

__all__ = ["Experience", "RewardScaling", "Rollout", "gather"]
