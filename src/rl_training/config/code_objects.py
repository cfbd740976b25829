"""Code objects passed in Python, such as encoder classes: their names in a config, and passing them again on load."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from rl_training.config.parsing import shortened, type_hints
from rl_training.config.sections import GIVEN
from rl_training.core import AlgorithmConfig, Schedule
from rl_training.core.arguments import ConfigError
from rl_training.core.entry_points import find, leads_to, register
from rl_training.core.ranges import Range, ranges_in
from rl_training.core.schedule import FUNCTIONS
from rl_training.envs.make import FACTORIES
from rl_training.models import PICTURE_ENCODERS
from rl_training.models.own_encoder import ENCODERS

NOTED: set[str] = set()
log = logging.getLogger(__name__)


def by_name(settings: dict) -> dict:
    """Returns a copy of an algorithm's settings; an `encoder` class or function is registered and replaced by its name.

    Text and None stay as they are. Raises ConfigError if `encoder` is a finished module or cannot be called.
    """
    encoder = settings.get("encoder")
    if encoder is None or isinstance(encoder, str):
        return dict(settings)
    if isinstance(encoder, nn.Module):
        kind = type(encoder).__name__
        raise ConfigError(
            f"algorithm.encoder is a finished {kind}: pass the class, or a function of the observation space that returns one, "
            "because every network (policy, critics, targets) gets its own"
        )
    if not callable(encoder):
        raise ConfigError(
            f"algorithm.encoder={encoder!r} must be a class or a function of the observation space, or its name "
            "'package.module:name'"
        )
    return settings | {"encoder": register(encoder, ENCODERS)}


def with_code(values: dict, handed: Mapping[str, object]) -> dict:
    """Returns a loaded config's data with the objects of `handed` (setting name to object) in place of saved names.

    `env` is a class or function that builds environments; other keys are fields of section `algorithm`. Raises
    ConfigError if the config has no such setting or an object cannot be called.
    """
    settings = values.get("algorithm")
    if not handed or not isinstance(settings, dict):
        return values
    if "env" in handed:
        values, handed = with_factory(values, handed["env"]), {name: handed[name] for name in handed if name != "env"}
    for name, code in handed.items():
        if name not in settings or not callable(code):
            raise ConfigError(
                f"{name}={code!r}: only code is handed over again, such as encoder=Net; other settings are those of the "
                f"file, and load(path, {name}=...) begins a new run with another"
            )
    return values | {"algorithm": settings | dict(handed)}


def with_factory(values: dict, factory: object) -> dict:
    """Returns a loaded config's data with `factory`, which is registered, as the builder of its environments.

    Raises ConfigError unless `factory` can be called and the saved environment was built by a class or function, too.
    """
    env = values.get("env")
    old = env.get("id") if isinstance(env, dict) else None
    if not isinstance(old, str) or not names_factory(old) or not callable(factory):
        raise ConfigError(
            f"env={shortened(factory)}: a run keeps its environment, env.id={old!r}, and only a class or function that it "
            "was built from is handed over again; load(path, env=...) begins a new run in another"
        )
    new = register(factory, FACTORIES)

    def renamed(section: object) -> object:
        return section | {"id": new} if isinstance(section, dict) and section.get("id") == old else section

    def with_env(section: object) -> object:
        return section | {"env": renamed(section["env"])} if isinstance(section, dict) and "env" in section else section

    changed: dict[str, object] = {"env": renamed(env), "evaluation": with_env(values.get("evaluation"))}
    if isinstance(values.get("phases"), list):
        changed["phases"] = [with_env(phase) for phase in values["phases"]]
    return values | {name: section for name, section in changed.items() if name in values}


def names_factory(env_id: str) -> bool:
    """Returns True if an environment id has the form 'package.module:name' of a class or function that builds one.

    Returns False for ids of gymnasium, which end in a version, and of vector environments that were passed as objects.
    """
    return ":" in env_id and "-v" not in env_id and not env_id.startswith(GIVEN)


def named_by(settings: AlgorithmConfig) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yields (path, name, registered objects by name) for each setting that names an encoder or a schedule function.

    A path is, for example, "algorithm.encoder"; only objects that were passed in this process are registered.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name == "encoder" and isinstance(value, str) and value not in PICTURE_ENCODERS:
            yield "algorithm.encoder", value, ENCODERS
        if isinstance(value, Schedule) and value.function is not None:
            yield f"algorithm.{field.name}", value.function, FUNCTIONS


def with_checked_functions(settings: AlgorithmConfig) -> AlgorithmConfig:
    """Returns an algorithm's settings in which every schedule function was checked and carries its field's limits.

    Calls each function with the progress 0, 0.5 and 1. Raises ConfigError if it cannot be called so, or returns a value
    outside of the limits; raises ValueError if a function cannot be imported by its name.
    """
    checked, hints = {}, type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value, path = getattr(settings, field.name), f"algorithm.{field.name}"
        if not isinstance(value, Schedule) or value.function is None:
            continue
        function = find(value.function, FUNCTIONS, path)
        if takes_what_remains(function):
            raise ConfigError(
                f"{path}: {value.function!r} takes `progress_remaining`, as in Stable-Baselines3; here the argument is the "
                "share of the run that is done, from 0 to 1: use 1 - progress, and another name"
            )
        checked[field.name] = replace(value, setting=path, limits=next(ranges_in(hints[field.name]), Range()))
        for progress in (0.0, 0.5, 1.0):
            try:
                checked[field.name].at(progress)
            except TypeError as error:
                raise ConfigError(f"{path}: {value.function!r} cannot be called with {progress} ({error})") from error
            except ValueError as error:
                raise ConfigError(str(error)) from error
    return replace(settings, **checked)  # pyrefly: ignore  (fields that hold schedules)


def takes_what_remains(function: object) -> bool:
    try:
        return callable(function) and "progress_remaining" in inspect.signature(function).parameters
    except ValueError:  # some functions written in C do not say what they take
        return False


def note_environment_that_stays_here(env_id: str) -> None:
    """Logs a warning if no other process can import the class or function that builds environments of this id.

    Warns once for each id in a process; does nothing for ids of gymnasium.
    """
    if env_id in FACTORIES and env_id not in NOTED and not leads_to(env_id, FACTORIES[env_id]):
        NOTED.add(env_id)
        log.warning(
            f"env.id={env_id!r} cannot be imported, so another process can resume this run only if you hand it over "
            "again: Agent.resume(run_dir, env=...)"
        )


def note_what_stays_here(settings: AlgorithmConfig) -> None:
    """Logs a warning for each encoder or schedule function in `settings` that no other process can import by its name.

    Warns once for each name in a process.
    """
    for field, path, known in named_by(settings):
        if path in known and path not in NOTED and not leads_to(path, known[path]):
            NOTED.add(path)
            keyword = field.rpartition(".")[2]
            log.warning(
                f"{field}={path!r} cannot be imported, so another process can load or resume this only if you hand it "
                f"over again: load(path, {keyword}=...)"
            )
