"""The backend `native`: environments written as tensor code, by id or from a function that returns their dynamics."""

from __future__ import annotations

import torch

from rl_training.envs.backends import Abilities, register_backend
from rl_training.envs.catalogue import NATIVE
from rl_training.envs.factory import call_factory
from rl_training.envs.make import EnvConfig, find_factory, refusals_as_sentences
from rl_training.envs.native import NativeDynamics, NativeEnv
from rl_training.envs.teams import NativeTeamEnv, TeamDynamics


def check_native(config: EnvConfig) -> None:
    """Raises a ValueError if `config.id` is neither the name of native dynamics nor 'package.module:factory'."""
    NATIVE.load(config.id)
    if config.id not in NATIVE and ":" not in config.id:
        raise ValueError(no_native_version(config))


def make_native(config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> NativeEnv:
    """Builds environments on `device` from the dynamics that `config.id` names.

    Raises a ValueError if it names none.
    """
    dynamics, limit = build_dynamics(config), config.max_episode_steps
    if isinstance(dynamics, TeamDynamics):
        return NativeTeamEnv(dynamics, num_envs, max_episode_steps=limit, device=device, start=start)
    return NativeEnv(dynamics, num_envs, max_episode_steps=limit, device=device, start=start)


def build_dynamics(config: EnvConfig) -> NativeDynamics | TeamDynamics:
    factory = NATIVE.get(config.id) or find_factory(config.id)
    if factory is None:
        raise ValueError(no_native_version(config))
    with refusals_as_sentences(config):
        dynamics = call_factory(factory, config.kwargs, 0, config.id)
    if not isinstance(dynamics, NativeDynamics | TeamDynamics):
        raise ValueError(
            f"env.id={config.id!r} returned {type(dynamics).__name__}: with backend='native' a factory must return a "
            "NativeDynamics"
        )
    return dynamics


def describe_native(config: EnvConfig) -> dict[str, object]:
    dynamics = build_dynamics(config)
    limit = config.max_episode_steps or dynamics.max_episode_steps
    return dynamics.protocol | {"max_steps": limit} if dynamics.protocol else {}


def no_native_version(config: EnvConfig) -> str:
    return (
        f"env.id={config.id!r} has no native version: use one of {', '.join(NATIVE)}, 'package.module:factory', "
        "rl_training.envs.register_native, or env.backend='gymnasium'"
    )


register_backend(
    "native",
    make_native,
    owns=("MinAtar/", "matrix/", "mpe/"),
    check=check_native,
    protocol=describe_native,
    can=Abilities(on_device=True, saves_state=True, time_limit=True, several_agents=True),
)
