"""Environments: one contract, adapters for every backend, and the kit that checks them."""

from rl_training.envs.ale_backend import make_ale  # noqa: F401  (its import registers the backend)
from rl_training.envs.backends import BACKENDS, Abilities, register_backend
from rl_training.envs.catalogue import NATIVE, register_native
from rl_training.envs.check import check
from rl_training.envs.gymnasium_backend import make_gymnasium  # noqa: F401  (its import registers the backend)
from rl_training.envs.gymnasium_vector_env import GymnasiumEnv
from rl_training.envs.joint_env import AgentSettings
from rl_training.envs.local import LocalEnv
from rl_training.envs.make import EnvConfig, WrapperConfig, make_env
from rl_training.envs.native import GoalDynamics, NativeDynamics, NativeEnv, RandomDynamics
from rl_training.envs.native_backend import make_native  # noqa: F401  (its import registers the backend)
from rl_training.envs.pettingzoo_backend import make_pettingzoo  # noqa: F401  (its import registers the backend)
from rl_training.envs.teams import NativeTeamEnv, TeamDynamics, TeamStep
from rl_training.envs.vector import EnvStep, Lesson, VectorEnv

__all__ = [
    "BACKENDS",
    "NATIVE",
    "Abilities",
    "AgentSettings",
    "EnvConfig",
    "EnvStep",
    "GoalDynamics",
    "GymnasiumEnv",
    "Lesson",
    "LocalEnv",
    "NativeDynamics",
    "NativeEnv",
    "NativeTeamEnv",
    "RandomDynamics",
    "TeamDynamics",
    "TeamStep",
    "VectorEnv",
    "WrapperConfig",
    "check",
    "make_env",
    "register_backend",
    "register_native",
]
