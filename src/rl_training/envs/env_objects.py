"""Environment objects that users pass: the settings that rebuild them, and in what a rebuilt one differs."""

from __future__ import annotations

import json
import logging

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from rl_training.envs.gymnasium_backend import build_wrapped, wrap
from rl_training.envs.make import EnvConfig, WrapperConfig

# Keywords of gymnasium's make_vec, which it leaves in specs.
MAKE_VEC_KEYWORDS = ("max_episode_steps", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers")
SAID: set[str] = set()
log = logging.getLogger(__name__)


def settings_from_spec(env: gym.Env | gym.vector.VectorEnv, spec: EnvSpec) -> dict[str, object]:
    """Returns the fields of the config section `env` with which `spec`, gymnasium's spec of `env`, builds the same.

    They are `wrappers` and, where needed, `kwargs` and `max_episode_steps`. One environment is built and closed to
    compare it with `env`: raises a ValueError that says why if no settings rebuild it, and logs a warning if attributes
    of `env` were changed.
    """
    kwargs = {key: value for key, value in spec.kwargs.items() if key not in MAKE_VEC_KEYWORDS}
    registered = gym.registry.get(spec.id)
    own_limit = registered is None or spec.max_episode_steps == registered.max_episode_steps
    limit = None if own_limit else spec.max_episode_steps
    config = EnvConfig(id=spec.id, backend="gymnasium", kwargs=kwargs, max_episode_steps=limit)
    fresh = build_wrapped(config, None, 0)
    try:
        own = fresh.spec.additional_wrappers if fresh.spec else ()  # that the id stands for
        wrappers = [recorded_wrapper(wrapper) for wrapper in spec.additional_wrappers[len(own) :]]
        fresh = wrap(fresh, [WrapperConfig(**wrapper) for wrapper in wrappers])  # pyrefly: ignore[bad-argument-type]
        check_same(env, fresh)
    finally:
        fresh.close()
    settings: dict[str, object] = {"wrappers": wrappers}
    return settings | ({"kwargs": kwargs} if kwargs else {}) | ({} if limit is None else {"max_episode_steps": limit})


def recorded_wrapper(wrapper: object) -> dict[str, object]:
    """Returns gymnasium's `WrapperSpec` of a wrapper as a dict with `entry_point` and `kwargs`, which JSON can hold.

    Raises a ValueError if it has no recorded arguments, is defined in the script, or JSON cannot hold its arguments.
    """
    name, entry_point, kwargs = (getattr(wrapper, key) for key in ("name", "entry_point", "kwargs"))
    if kwargs is None:
        raise ValueError(f"its wrapper {name} does not record its arguments (gymnasium.utils.RecordConstructorArgs)")
    if entry_point.startswith("__main__:"):
        raise ValueError(f"its wrapper {name} is defined in the script itself, which no other process can import")
    try:
        plain = json.loads(json.dumps(kwargs, default=lambda value: value.tolist()))  # of numpy
    except (TypeError, AttributeError):
        raise ValueError(f"its wrapper {name} was made with {kwargs}, which no file can hold") from None
    return {"entry_point": entry_point, "kwargs": plain}


def check_same(env: gym.Env | gym.vector.VectorEnv, fresh: gym.Env) -> None:
    """Raises a ValueError if the rebuilt `fresh` has other spaces, another class or another time limit than `env`.

    Logs a warning if they differ only in changed attributes.
    """
    vector = isinstance(env, gym.vector.VectorEnv)
    one = next(iter(getattr(env, "envs", ())), None) if vector else env
    spaces = ("single_observation_space", "single_action_space") if vector else ("observation_space", "action_space")
    for name, theirs in zip(spaces, (fresh.observation_space, fresh.action_space), strict=True):
        if getattr(env, name) != theirs:
            raise ValueError(f"its {name} is {getattr(env, name)}, and one that is built from its spec has {theirs}")
    if one is None:
        return
    if type(one.unwrapped) is not type(fresh.unwrapped):
        kinds = [type(made.unwrapped).__name__ for made in (one, fresh)]
        raise ValueError(f"it is a {kinds[0]}, and its id builds a {kinds[1]}")
    limits = [made.spec.max_episode_steps if made.spec else None for made in (one, fresh)]
    if limits[0] != limits[1]:
        raise ValueError(f"its time limit is {limits[0]}, and one that is built from its spec has {limits[1]}")
    note_changed_attributes(one, fresh)


def check_recorded(env: gym.vector.VectorEnv) -> None:
    """Raises a ValueError if a vector environment has wrappers that its `spec`, from which it is rebuilt, lacks.

    `RecordEpisodeStatistics` may be missing there.
    """
    if isinstance(env, RecordEpisodeStatistics):  # which changes no step
        check_recorded(env.env)
    elif isinstance(env, gym.vector.VectorWrapper):
        raise ValueError(f"its spec does not record the wrapper {type(env).__name__}")
    if env.spec is not None and env.spec.kwargs.get("wrappers"):
        raise ValueError("it was made with wrappers=..., whose arguments its spec does not record")


def note_changed_attributes(env: gym.Env, fresh: gym.Env) -> None:
    """Logs a warning, once per environment id, that names the attributes of `env` whose values `fresh` does not have."""
    if env.spec is None or env.spec.id in SAID:
        return
    values = ", ".join(f"{name}={value!r}" for name, value in changed_attributes(env, fresh).items())
    if not values:
        return
    SAID.add(env.spec.id)
    log.warning(
        f"{values} of the {env.spec.id} that was handed over is not what a new one has, and environments are built anew "
        "from its spec, without it: pass a function that builds and changes one"
    )


def changed_attributes(env: gym.Env, fresh: gym.Env) -> dict[str, object]:
    """Returns the public attributes of `env` that differ from those of `fresh`, with the values of `env`, by name.

    Compares only bool, int, float and str.
    """
    ours, theirs = vars(env.unwrapped), vars(fresh.unwrapped)
    return {
        name: value
        for name, value in ours.items()
        if not name.startswith("_") and is_plain(value) and is_plain(theirs.get(name)) and value != theirs[name]
    }


def is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)
