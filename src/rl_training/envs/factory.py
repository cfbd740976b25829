"""Calls of the functions that build environments, with the settings and, if they take it, the environment's number."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import gymnasium as gym

from rl_training.core.arguments import shown
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.native import NativeDynamics
from rl_training.envs.teams import TeamDynamics

EnvFactory = Callable[..., gym.Env | NativeDynamics | TeamDynamics]  # dynamics: for backend='native'
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call_factory(
    factory: EnvFactory, kwargs: Mapping[str, object], index: int, name: str
) -> gym.Env | NativeDynamics | TeamDynamics:
    """Builds one environment by calling `factory` with `kwargs`.

    `index` is the environment's number in the run, `name` is for errors. A factory gets the number if it has a parameter
    `index`, or if it is a function with exactly one parameter that must be given by position: `lambda index:
    MyEnv(level=index)`. Raises a ValueError if the call does not fit its signature, or if it raises a ValueError or
    OSError itself.
    """
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # written in C
        return factory(**kwargs)
    wanted = signature.parameters
    arguments = dict(kwargs)
    missing = [p for p in wanted.values() if p.kind in POSITIONAL and p.default is p.empty and p.name not in kwargs]
    positions: tuple[int, ...] = ()
    if "index" in wanted and "index" not in kwargs and wanted["index"].kind is not inspect.Parameter.POSITIONAL_ONLY:
        arguments["index"] = index
    elif len(missing) == 1 and not inspect.isclass(factory) and not inspect.isbuiltin(factory):
        positions = (index,)
    try:
        signature.bind(*positions, **arguments)
    except TypeError as error:
        raise ValueError(
            f"env.kwargs={dict(kwargs)!r} was refused by {name}, which takes {signature}: {error}; env.kwargs are its "
            "keywords, and a parameter named `index` gets the number of the environment"
        ) from error
    try:
        return factory(*positions, **arguments)
    except EnvFailedError:  # it hangs, and says so
        raise
    except (ValueError, OSError) as error:
        raise ValueError(f"env.id={name!r} could not be built: {type(error).__name__}: {error}") from error


def refuse_several_agents(env: object) -> None:
    """Raises a ValueError if `env` is a PettingZoo environment, which has several agents; not if it is a class."""
    if hasattr(env, "possible_agents") and not isinstance(env, gym.Env | type):
        raise ValueError(
            f"{type(env).__name__} has several agents ({shown(getattr(env, 'possible_agents', None))}), as PettingZoo's "
            "environments do: pass its id, IPPO('pettingzoo:package.module'), or a function that makes it with "
            "backend='pettingzoo'"
        )


def check_reset_signature(env: gym.Env) -> None:
    """Raises a ValueError if `reset` of the unwrapped environment takes no `seed` or `options`, as in the old gym API."""
    reset = env.unwrapped.reset
    try:
        inspect.signature(reset).bind(seed=0, options=None)
    except TypeError as error:
        raise ValueError(
            f"`reset` of {type(env.unwrapped).__name__} cannot be called ({error}): gymnasium wants "
            "reset(self, *, seed=None, options=None)"
        ) from error
