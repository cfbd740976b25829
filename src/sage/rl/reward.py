"""The promised path of `sage.evidence.reward`."""

from sage.evidence.reward import REWARD_V1, RewardError, RewardWeights, composite_reward

__all__ = ["REWARD_V1", "RewardError", "RewardWeights", "composite_reward"]
