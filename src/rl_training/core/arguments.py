"""Checks of the numbers, seeds, rows and paths that users pass; their errors name the argument."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

import numpy as np

from rl_training.core.schedule import Range

T = TypeVar("T")
ANY, COUNT, NATURAL, SHARE = Range(), Range(min=1), Range(min=0), Range(min=0, max=1)
SEED = Range(min=0, max=2**63 - 1)  # what torch and gymnasium take
LONGEST = 60  # characters of a value in a sentence


class RowError(ValueError, IndexError):
    """An error for row numbers that are out of range; a ValueError and an IndexError."""


def refuse_settings(kind: type, by_position: tuple, settings: Mapping[str, object]) -> Exception:
    """Returns, without raising it, a TypeError for a config class called with positional or unknown arguments."""
    unknown = [name for name in settings if name not in {field.name for field in fields(kind)}]
    return TypeError(
        f"{kind.__name__} has no field {', '.join(unknown)}" if unknown else f"{kind.__name__}: name the settings"
    )


def shown(value: object) -> str:
    """Returns the `repr` of a value for an error message, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def as_python(value: object) -> object:
    """Returns a numpy scalar or 0-dim array as a Python bool, int, float or str, and any other value unchanged."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    for kind, own in ((np.bool_, bool), (np.integer, int), (np.floating, float), (np.str_, str)):
        if isinstance(value, kind):
            return own(value)
    return value


def whole_number(value: object, name: str, limits: Range = COUNT) -> int:
    """Returns 5 or 5.0 as an int; raises a ValueError that begins with `name` if not whole or out of `limits`."""
    number = as_python(value)
    is_whole = isinstance(number, Integral) or (isinstance(number, float) and number.is_integer())
    if isinstance(number, bool) or not is_whole:
        raise ValueError(f"{name}={shown(value)} must be a whole number")
    whole = int(number)  # pyrefly: ignore  (as was just seen)
    check_limits(whole, name, limits)
    return whole


def real_number(value: object, name: str, limits: Range = ANY) -> float:
    """Returns a number as a float; raises a ValueError that begins with `name` if not finite or out of `limits`."""
    number = as_python(value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise ValueError(f"{name}={shown(value)} must be a number")
    try:
        number = float(number)
    except OverflowError as error:
        raise ValueError(f"{name}={shown(value)} must be finite") from error
    check_limits(number, name, limits)
    return number


def check_limits(number: float, name: str, limits: Range) -> None:
    reason = limits.refusal(number)
    if reason:
        raise ValueError(f"{name}={shown(number)} {reason}")


def row_numbers(value: object, name: str, total: int, what: str) -> np.ndarray:
    """Returns, as an int64 array, a list of row numbers or the places where a bool mask of length `total` is True.

    Raises a RowError for numbers outside 0 to `total` - 1, and a ValueError for a mask of another length or anything
    that is no list of whole numbers. The message names the argument `name` and calls the rows `what`.
    """
    try:
        rows = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # lists of different lengths; tensors of a GPU
        raise ValueError(f"{name}={shown(value)} must be a list of whole numbers ({error})") from error
    if rows.ndim == 1 and not len(rows) and rows.dtype.kind != "b":
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iub":
        raise ValueError(f"{name}={shown(value)} must be a list of whole numbers, e.g. [0, 2]")
    if rows.dtype.kind == "b":
        if len(rows) != total:
            raise ValueError(f"{name} is a mask of {len(rows)} for {total} {what}: give one truth value for each")
        return np.flatnonzero(rows)
    if rows.min() < 0 or rows.max() >= total:
        raise RowError(f"{name} runs from {rows.min()} to {rows.max()}, and there are {total} {what}, counted from 0")
    return rows.astype(np.int64)


def checked_path(value: object, name: str) -> Path:
    """Returns a path with `~` expanded; raises a ValueError if the value is empty, no path or no possible file name."""
    text = os.fsdecode(value) if isinstance(value, str | os.PathLike) else ""
    if not text:
        raise ValueError(f"{name}={shown(value)} is not a path: give the name of a file or folder")
    if "\0" in text:
        raise ValueError(f"{name}={shown(value)} holds a zero byte, which no file system takes: choose another name")
    check_text(text, name)
    return expand_home(text)


def expand_home(path: str) -> Path:
    """Returns the path with `~` or `~user` expanded; raises a ValueError if that home folder is not known."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: the home folder is not known: write the whole path") from error


def check_text(path: str, name: str) -> None:
    """Raises a ValueError that begins with `name` if a path holds bytes that Python could not decode in this locale."""
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ValueError(
            f"{name}={path!a} holds bytes that are no text in this locale, and some libraries cannot open it: set "
            "PYTHONUTF8=1 or LC_ALL=C.UTF-8, or choose a name in ASCII"
        )


def instance_of(value: object, kind: type[T], name: str, advice: str) -> T:
    """Returns `value` if it is a `kind`; otherwise raises a ValueError with `name` and, at its end, `advice`."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}={shown(value)} is not a {kind.__name__}: {advice}")
    return value


class ConfigError(ValueError):
    """An error for a setting that cannot be used; the message names it, the reason and what to write instead."""


class CallError(ConfigError, TypeError):
    """An error for a call with an unknown keyword or the wrong number of arguments; also a TypeError."""
