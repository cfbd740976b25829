"""A re-export of `sage.evidence.reward` under its promised path."""

from sage.evidence.reward import REWARD_V1, RewardError, RewardWeights, composite_reward

__all__ = ["REWARD_V1", "RewardError", "RewardWeights", "composite_reward"]
