"""What people hand over as an environment: an id, a factory, an environment, a vector environment."""

from __future__ import annotations

import gymnasium as gym

from rl_training.envs import GymnasiumEnv, VectorEnv
from rl_training.envs.make import FACTORIES
from rl_training.experiment import ConfigError


def env_from(source: object, settings: dict[str, object]) -> tuple[str, VectorEnv | None]:
    """Returns the id that goes into the config and, where one was handed over, the finished vector environment."""
    if isinstance(source, str):
        return source, None
    if isinstance(source, gym.vector.VectorEnv):
        source = GymnasiumEnv(source)
    if isinstance(source, VectorEnv):
        settings.setdefault("n_envs", source.num_envs)
        if settings["n_envs"] != source.num_envs:
            raise ConfigError(f"n_envs={settings['n_envs']}, but the vector environment has {source.num_envs}")
        return id_of(source), source
    if isinstance(source, gym.Env):
        if source.spec is None:
            raise ConfigError(
                f"{type(source).__name__} was handed over as an object without a spec, so no copies of it can be made for "
                f"evaluation: pass a function, e.g. lambda: {type(source).__name__}(...)"
            )
        return source.spec.id, None
    if callable(source):
        name = f"{getattr(source, '__module__', 'unknown')}:{getattr(source, '__qualname__', repr(source))}"
        FACTORIES[name] = source
        return name, None
    raise ConfigError(f"env={source!r} is not an environment: pass an id, a function that returns one, or a config")


def id_of(env: VectorEnv) -> str:
    spec = getattr(getattr(env, "env", None), "spec", None)
    return spec.id if spec is not None else type(env).__name__
