"""Base classes for algorithms of other packages, and functions that register algorithms, stores and backends."""

from rl_training.algorithms.continuous import ContinuousAlgorithm, TargetedConfig
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.algorithms.ppo import ActorCriticAlgorithm, ActorCriticConfig
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.config import register_algorithm
from rl_training.core.renamed import find_renamed
from rl_training.envs import register_backend
from rl_training.experience import register_store

__all__ = [
    "ActorCriticAlgorithm",
    "ActorCriticConfig",
    "ContinuousAlgorithm",
    "OffPolicyAlgorithm",
    "OffPolicyConfig",
    "OnPolicyAlgorithm",
    "OnPolicyConfig",
    "TargetNetworks",
    "TargetedConfig",
    "frozen_copy",
    "register_algorithm",
    "register_backend",
    "register_store",
]
RENAMED = {"TargetedAlgorithm": "ContinuousAlgorithm"}  # old public names, which go with 0.3 (docs/stability.md)


def __getattr__(name: str) -> object:
    return find_renamed(globals(), name, RENAMED)
