"""Base classes and registration for algorithms of other packages; `core` has the contracts."""

from rl_training.algorithms.continuous import TargetedAlgorithm, TargetedConfig
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.algorithms.ppo import ActorCriticAlgorithm, ActorCriticConfig
from rl_training.config import register_algorithm
from rl_training.experience import register_store

__all__ = [
    "ActorCriticAlgorithm",
    "ActorCriticConfig",
    "OffPolicyAlgorithm",
    "OffPolicyConfig",
    "OnPolicyAlgorithm",
    "OnPolicyConfig",
    "TargetedAlgorithm",
    "TargetedConfig",
    "register_algorithm",
    "register_store",
]
