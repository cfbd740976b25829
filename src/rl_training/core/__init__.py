"""The contracts that every other layer depends on; of other packages, it imports torch and numpy only."""

from rl_training.core.algorithm import Algorithm, AlgorithmConfig
from rl_training.core.converters import ActionConverter, ObservationConverter
from rl_training.core.needs import Absent, ExperienceKind, Needs, Supply
from rl_training.core.optimizer import Adam, Optimizer, RAdam, RMSprop
from rl_training.core.passes import Pass, Periodic
from rl_training.core.policy import Act, Decision, Policy, UniformPolicy
from rl_training.core.ranks import ALONE, Ranks
from rl_training.core.registry import register
from rl_training.core.renamed import find_renamed
from rl_training.core.schedule import Schedule, Scheduled
from rl_training.core.spaces import Box, Dict, Discrete, Groups, Leaf, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.core.teams import AgentGroup, TeamSpec
from rl_training.core.tree import Tree, owned, tree_leaves, tree_map
from rl_training.core.types import (
    BatchT,
    Column,
    Loss,
    Metrics,
    RolloutBatch,
    Rows,
    Step,
    StepBatch,
    Transition,
    Weighted,
)

__all__ = [
    "ALONE",
    "Absent",
    "Act",
    "ActionConverter",
    "Adam",
    "AgentGroup",
    "Algorithm",
    "AlgorithmConfig",
    "BatchT",
    "Box",
    "Column",
    "Decision",
    "Dict",
    "Discrete",
    "ExperienceKind",
    "Groups",
    "Leaf",
    "Loss",
    "Metrics",
    "MultiBinary",
    "MultiDiscrete",
    "Needs",
    "ObservationConverter",
    "Optimizer",
    "Pass",
    "Periodic",
    "Policy",
    "RAdam",
    "RMSprop",
    "Ranks",
    "RolloutBatch",
    "Rows",
    "Schedule",
    "Scheduled",
    "Space",
    "Spec",
    "Step",
    "StepBatch",
    "Supply",
    "TeamSpec",
    "Transition",
    "Tree",
    "UniformPolicy",
    "Weighted",
    "owned",
    "register",
    "tree_leaves",
    "tree_map",
]
RENAMED = {"Also": "Periodic", "Workers": "Ranks"}  # old public names, which go with 0.3 (docs/stability.md)


def __getattr__(name: str) -> object:
    return find_renamed(globals(), name, RENAMED)
