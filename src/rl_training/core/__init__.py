"""The contracts that every other layer depends on. Imports torch and nothing else."""

from rl_training.core.algorithm import Algorithm, AlgorithmConfig, Pass
from rl_training.core.optimizer import Adam, Optimizer, RMSprop
from rl_training.core.policy import Act, Policy
from rl_training.core.schedule import Schedule, Scheduled
from rl_training.core.spaces import ActionConverter, Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.core.tree import Tree, tree_leaves, tree_map
from rl_training.core.types import Batch, Metrics, Step, Transition

__all__ = [
    "Act",
    "ActionConverter",
    "Adam",
    "Algorithm",
    "AlgorithmConfig",
    "Batch",
    "Box",
    "Dict",
    "Discrete",
    "Metrics",
    "MultiBinary",
    "MultiDiscrete",
    "Optimizer",
    "Pass",
    "Policy",
    "RMSprop",
    "Schedule",
    "Scheduled",
    "Space",
    "Spec",
    "Step",
    "Transition",
    "Tree",
    "tree_leaves",
    "tree_map",
]
