"""Stores between collection and learning."""

from rl_training.experience.base import Experience
from rl_training.experience.hindsight import HindsightSettings
from rl_training.experience.logged import LoggedSteps
from rl_training.experience.mixture import Mixture
from rl_training.experience.replay import Replay
from rl_training.experience.rollout import RewardScaling, Rollout
from rl_training.experience.segments import RowLog, Segment
from rl_training.experience.settings import (
    ExperienceSettings,
    ReplaySettings,
    RolloutSettings,
    StoreContext,
    register_store,
)

__all__ = [
    "Experience",
    "ExperienceSettings",
    "HindsightSettings",
    "LoggedSteps",
    "Mixture",
    "Replay",
    "ReplaySettings",
    "RewardScaling",
    "Rollout",
    "RolloutSettings",
    "RowLog",
    "Segment",
    "StoreContext",
    "register_store",
]
