"""Conversion of plain data to typed settings: each wrong key, type or value raises an error that names the fix."""

from __future__ import annotations

import dataclasses
import difflib
import os
import types
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from rl_training.config.names_of_others import SETTINGS, SETTINGS_ADVICE
from rl_training.core import Schedule
from rl_training.core.arguments import SEED, ConfigError, as_python, checked_path
from rl_training.core.ranges import Real as AnyReal
from rl_training.core.ranges import Share
from rl_training.core.schedule import Range

T = TypeVar("T")
LONGEST = 60  # characters of a value in a sentence
NOWHERE: Mapping[str, str] = types.MappingProxyType({})


def shortened(value: object) -> str:
    """Returns the repr of a value, cut to 60 characters; a dataclass with a longer one becomes `Name(...)`."""
    text = repr(value)
    if len(text) > LONGEST and dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def nearest(name: str, choices: list[str], elsewhere: Mapping[str, str] = NOWHERE) -> str:
    """Returns advice about an unknown setting, as the end of an error message.

    The advice is our name for a name of another library, or the most similar of `choices` and of the keys of
    `elsewhere`, whose values are the paths to show.
    """
    if name in SETTINGS:
        return f"here it is called {SETTINGS[name]}"
    if name in SETTINGS_ADVICE:
        return SETTINGS_ADVICE[name]
    return closest(name, choices, elsewhere)


def closest(name: str, choices: list[str], elsewhere: Mapping[str, str] = NOWHERE) -> str:
    """Returns "did you mean ...?" with the most similar name in `choices` or `elsewhere` (name to the path shown).

    Returns "choose from ..." with all choices if none is similar.
    """
    close = difflib.get_close_matches(name, [*choices, *elsewhere], n=1, cutoff=0.5)
    if not close:
        return f"choose from {', '.join(choices)}"
    return f"did you mean {close[0]!r}?" if close[0] in choices else f"did you mean {elsewhere[close[0]]}?"


def field_names(cls: type) -> list[str]:
    """Returns the names of a dataclass's fields, in their order."""
    return [field.name for field in dataclasses.fields(cls)]


@cache
def type_hints(cls: type) -> Mapping[str, object]:
    """Returns the type annotation of every field of a dataclass by its name; cached, because resolving them is slow."""
    return types.MappingProxyType(get_type_hints(cls, include_extras=True))


def parse_dataclass(cls: type[T], values: object, path: str) -> T:
    """Builds the settings dataclass `cls` from a mapping; returns an instance of `cls` as it is.

    Raises ConfigError, whose message begins with `path`, if a key is unknown, a value is missing, or one is invalid.
    """
    if isinstance(values, cls):
        return values
    if not isinstance(values, dict):
        raise ConfigError(f"{path}={values!r} must be a mapping of settings")
    hints = type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # pyrefly: ignore
    for name in values:
        if name not in fields:
            hint = closest if "." in path else nearest  # other libraries' names are of whole sections
            raise ConfigError(f"{path}.{name} is not a setting: {hint(str(name), list(fields))}")
    parsed = {}
    for name, field in fields.items():
        if name in values:
            parsed[name] = parse_value(hints[name], values[name], f"{path}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{path}.{name} is missing: give it a value")
    return cls(**parsed)


def parse_value(hint: object, value: object, path: str) -> object:
    """Converts a value to the type that the annotation `hint` asks for, and checks its range.

    Numbers may be text such as "1e5", or numpy's. Raises ConfigError, whose message begins with `path`, if the value
    does not fit.
    """
    value = value.tolist() if isinstance(value, np.ndarray) and value.ndim else as_python(value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return parse_union(arguments, value, path)
    if origin is Annotated:
        parsed = parse_value(arguments[0], value, path)
        check_range(parsed, arguments[1], path)
        return parsed
    if origin is Literal:
        if value in arguments and not (isinstance(value, bool) and not any(a is value for a in arguments)):
            return value
        raise ConfigError(
            f"{path}={value!r} is not one of {', '.join(map(repr, arguments))}{suggestion(value, arguments)}"
        )
    if origin is tuple:
        if not isinstance(value, list | tuple):
            nested = "[{...}, {...}]" if dataclasses.is_dataclass(arguments[0]) else "[64, 64]"
            example = f"[{value if isinstance(value, str) else 'name'}]" if arguments[0] is str else nested
            raise ConfigError(f"{path}={value!r} must be a list, for example {example}")
        return tuple(parse_value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{path}={value!r} must be a mapping")
        return dict(value)
    if hint is Schedule:
        schedule = parse_schedule(value, path)
        check_range(schedule, Range(), path)
        return schedule
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if isinstance(value, list | tuple) and hasattr(hint, "from_list"):
            value = to_plain(hint.from_list(parse_value(tuple[int, ...], value, path)))
        elif hasattr(hint, "from_list") and not isinstance(value, dict | hint):
            raise ConfigError(f"{path}={value!r} must be a list, for example [64, 64], or a mapping of such")
        return parse_dataclass(hint, value, path)
    return parse_scalar(hint, value, path)


def check_once(names: Sequence[str], path: str) -> None:
    """Raises ConfigError if a name is in the list twice; `path` is the setting that the message names."""
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path} names {name!r} twice: name it once")


def parse_union(arguments: tuple, value: object, path: str) -> object:
    if value is None and type(None) in arguments:
        return None
    options = [a for a in arguments if a is not type(None)]
    if len(options) == 1:
        return parse_value(options[0], value, path)
    errors = []
    for option in options:
        try:
            return parse_value(option, value, path)
        except ConfigError as error:
            errors.append(str(error))
    words = tuple(word for option in options if get_origin(option) is Literal for word in get_args(option))
    if words and bool in options:
        choices = ", ".join(["true", "false", *map(repr, words)])
        raise ConfigError(f"{path}={value!r} is not one of {choices}{suggestion(value, words)}")
    if words and isinstance(value, str) and as_float(value) is None:
        choices = ", ".join(map(repr, words))
        raise ConfigError(f"{path}={value!r} is neither a number nor one of {choices}{suggestion(value, words)}")
    raise ConfigError(errors[0])


def parse_schedule(value: object, path: str) -> Schedule:
    try:
        return Schedule.parse(value)
    except (ValueError, TypeError) as error:
        if str(error).startswith("Schedule."):  # about one of its numbers
            raise ConfigError(str(error).replace("Schedule.initial", path).replace("Schedule", path)) from error
        raise ConfigError(f"{path}={value!r}: {error}") from error


def parse_scalar(hint: object, value: object, path: str) -> object:
    if hint is bool and isinstance(value, bool | np.bool_):
        return bool(value)
    if hint in (int, float) and not isinstance(value, bool):
        number = as_float(value)
        if number is not None and (hint is float or number.is_integer()):
            check_range(number, Range(), path)
            return hint(value if isinstance(value, int) else number)
    if hint is str and isinstance(value, str):
        return value
    if hint is object:
        return value
    if hint is str and isinstance(value, os.PathLike | torch.device):
        return str(value)
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    raise ConfigError(f"{path}={value!r} must be {names.get(hint, hint)}")  # pyrefly: ignore


def as_float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, Real | str) else None
    except (ValueError, OverflowError):
        return None


def parse_path(value: object, name: str) -> Path:
    """Returns the path that a user gave for argument `name` as an absolute path, with `~` expanded.

    Raises ConfigError if no file can have that path.
    """
    try:
        path = checked_path(value, name).absolute()
        path.exists()
    except OSError as error:
        raise ConfigError(f"{name}={value!r} cannot be used ({error.strerror}): choose another") from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return path


def suggestion(value: object, choices: tuple) -> str:
    close = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""


def check_range(value: object, limits: Range, path: str) -> None:
    """Raises ConfigError if a number, or a schedule's first value, last value or fraction, is outside of its limits.

    Ignores values of other types and schedules given as functions; `path` is the setting that the message names.
    """
    if isinstance(value, Schedule):
        if value.function is not None:
            return  # checked where the run is built: what a config only names is not imported to be read
        check_range(value.initial, limits, path)
        check_range(value.final, limits.after_the_start, f"{path}.final")
        check_range(value.fraction, Range(above=0, max=1), f"{path}.fraction")
    elif isinstance(value, int | float):
        reason = limits.refusal(value)
        if reason:
            raise ConfigError(f"{path}={value} {reason}")


def to_plain(value: object) -> object:
    """Converts settings to mappings, lists, text and numbers for JSON or YAML: the inverse of `parse_value`.

    Raises ConfigError for an object that no file can hold.
    """
    if isinstance(value, Schedule):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if value is not None and not isinstance(value, str | int | float):
        raise ConfigError(
            f"{value!r} of type {type(value).__name__} is a setting that no file can hold, so it cannot be saved: pass a "
            "function that builds the environment with it"
        )
    return value


def parse_flag(value: object, name: str) -> bool:
    flag = parse_value(bool, value, name)
    assert isinstance(flag, bool)
    return flag


def parse_seed(value: object, name: str = "seed") -> int:
    """Returns the value of argument `name` as a seed, an int from 0 to 2**63 - 1; else raises ConfigError."""
    seed = parse_value(Annotated[int, SEED], value, name)
    assert isinstance(seed, int)
    return seed


def parse_share(value: object, name: str) -> float:
    """Returns the value of argument `name` as a float from 0 to 1, both included; else raises ConfigError."""
    share = parse_value(Share, value, name)
    assert isinstance(share, float)
    return share


def parse_confidence(value: object, name: str) -> float:
    """Returns the value of argument `name` as a float between 0 and 1, both excluded; else raises ConfigError."""
    level = parse_value(AnyReal, value, name)
    assert isinstance(level, float)
    if not 0 < level < 1:
        raise ConfigError(f"{name}={level:g} must lie between 0 and 1, e.g. 0.95")
    return level


def parse_steps(value: object, name: str, least: int = 1) -> int:
    steps = parse_value(int, value, name)
    assert isinstance(steps, int)
    if steps < least:
        raise ConfigError(f"{name}={steps} must be at least {least}")
    return steps
