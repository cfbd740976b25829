"""The backend `gymnasium`: environments in this process, in worker processes, or in their own vectorised version."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import gymnasium as gym
import torch

from rl_training.core.entry_points import find
from rl_training.core.free_memory import check_memory
from rl_training.envs.backends import Abilities, register_backend
from rl_training.envs.env_processes import EnvProcesses, Guarded
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.factory import EnvFactory, call_factory, check_reset_signature, refuse_several_agents
from rl_training.envs.gymnasium_vector_env import GymnasiumEnv
from rl_training.envs.local import LocalEnv
from rl_training.envs.make import LEAST_BYTES, EnvConfig, WrapperConfig, find_factory, refusals_as_sentences
from rl_training.envs.native import NativeDynamics
from rl_training.envs.result_checks import CheckedSteps
from rl_training.envs.vector import VectorEnv
from rl_training.envs.watch import Watch

FRAME_BYTES = 100  # of an array, besides its numbers


def make_gymnasium(config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> VectorEnv:
    """Builds `num_envs` gymnasium environments in this process, in worker processes, or as a vectorised version.

    `config.vectorization` decides which; `device` is not used, and `start` is the number of the first one in the run.
    """
    if config.vectorization == "vector_entry_point":
        return make_vectorized(config, num_envs, start)
    factory = find_factory(config.id)  # here, because a worker process may not know what was handed over in Python
    if config.vectorization == "sync":
        builders = [partial(build_one, config, factory)] * num_envs
        return LocalEnv(builders, timeout_s=config.timeout_s, start=start, total=start + num_envs)
    with Watch(config.timeout_s):
        build_one(config, factory, 0).close()  # a wrong id or missing package is reported from here, not from a worker
    builders = [partial(build_remote, config, factory, start + index) for index in range(num_envs)]
    return GymnasiumEnv(EnvProcesses(builders, timeout_s=config.timeout_s), logged=True, start=start)


def make_part(config: EnvConfig, factory: EnvFactory | None, rows: range, total: int) -> LocalEnv:
    """Builds the environments with the numbers `rows`, of a run that has `total`, in this process.

    `factory` builds one (None: gymnasium's id does); `config.n_envs` is not used.
    """
    builders = [partial(build_one, config, factory)] * len(rows)
    env = LocalEnv(builders, timeout_s=config.timeout_s, start=rows.start, total=total)
    env.ask_columns(config.info_keys)
    return env


def make_vectorized(config: EnvConfig, num_envs: int, start: int = 0) -> GymnasiumEnv:
    if config.num_stacked > 1 or config.max_episode_steps or config.wrappers:
        raise ValueError(
            "env.vectorization='vector_entry_point' takes no frame_stack, max_episode_steps or wrappers: use 'sync'"
        )
    with refusals_as_sentences(config):
        if gym.spec(config.id).vector_entry_point is None:
            raise ValueError(f"env.id={config.id!r} has no vector entry point: use env.vectorization='sync' or 'async'")
        make = partial(gym.make_vec, config.id, num_envs, vectorization_mode="vector_entry_point")
        return GymnasiumEnv(make(**config.kwargs), timeout_s=config.timeout_s, start=start)  # pyrefly: ignore[bad-argument-type]  (the environment's own)


def build_one(config: EnvConfig, factory: EnvFactory | None, index: int) -> EpisodeLog:
    env = build_wrapped(config, factory, index)
    check_reset_signature(env)
    if config.num_stacked > 1:
        check_memory(config.num_stacked * (FRAME_BYTES + one_frame(env)), f"env.frame_stack={config.num_stacked}")
        env = gym.wrappers.FrameStackObservation(env, config.num_stacked)
    return EpisodeLog(env, index)


def build_wrapped(config: EnvConfig, factory: EnvFactory | None, index: int) -> gym.Env:
    """Builds environment number `index` inside the wrappers of its config.

    A `factory` of None stands for `gymnasium.make`.
    """
    with refusals_as_sentences(config):
        env = build_bare(config, factory, index)
    return wrap(env, config.wrappers)


def wrap(env: gym.Env, wrappers: Sequence[WrapperConfig]) -> gym.Env:
    """Returns `env` inside the given wrappers, the first innermost; raises a ValueError if one cannot be built."""
    for wrapper in wrappers:
        build: Callable[..., object] = find(wrapper.entry_point, {}, "env.wrappers.entry_point")
        try:
            made = build(env, **wrapper.kwargs)
        except (TypeError, ValueError, AssertionError) as error:
            raise ValueError(
                f"env.wrappers: {wrapper.entry_point} with {wrapper.kwargs} was refused: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, gym.Env):
            raise ValueError(
                f"env.wrappers: {wrapper.entry_point} returned {type(made).__name__}: name a gymnasium.Wrapper"
            )
        env = made
    return env


def one_frame(env: gym.Env) -> int:
    """Returns the size of one observation of `env` in bytes; 0 if the observation space has no shape or dtype."""
    space = env.observation_space
    return space.dtype.itemsize * math.prod(space.shape) if space.shape is not None and space.dtype else 0


def build_remote(config: EnvConfig, factory: EnvFactory | None, index: int) -> Guarded:
    return Guarded(build_one(config, factory, index), config.info_keys)


def build_bare(config: EnvConfig, factory: EnvFactory | None, index: int) -> gym.Env:
    limit = config.max_episode_steps
    if factory is None:
        # Gymnasium's passive checker only warns; what it looks at is refused here with a sentence.
        return gym.make(config.id, max_episode_steps=limit, disable_env_checker=True, **config.kwargs)
    env = call_factory(factory, config.kwargs, index, config.id)
    if isinstance(env, NativeDynamics):
        raise ValueError(
            f"env.id={config.id!r} returned {type(env).__name__}, which is tensor code: use backend='native'"
        )
    refuse_several_agents(env)
    if not isinstance(env, gym.Env):
        raise ValueError(f"env.id={config.id!r} returned {type(env).__name__}: a factory must return a gymnasium.Env")
    if limit or config.num_stacked > 1 or config.wrappers:
        env = CheckedSteps(env, index)  # wrappers take answers apart before anybody has looked at them
    return gym.wrappers.TimeLimit(env, limit) if limit else env


register_backend(
    "gymnasium",
    make_gymnasium,
    make_part=make_part,
    can=Abilities(
        vectorizations=tuple(LEAST_BYTES),
        samplers=True,
        saves_state=True,
        time_limit=True,
        wrap=True,
        renders=True,
    ),
)
