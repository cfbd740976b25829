"""Values of models.yaml, read strictly: for every mistake a ModelsFileError with the place, the value and the fix."""

from __future__ import annotations

import math
from dataclasses import fields

from sage.orchestrator.nearest import nearest


class ModelsFileError(ValueError):
    """Error about a models.yaml that cannot be used; the message names the place, the value and the fix."""


def section(cls: type, value: object, place: str) -> dict:
    """Returns the mapping at a place without its empty values.

    Raises ModelsFileError if it has keys that are not fields of the dataclass `cls`, or lacks one that has no default.
    """
    names = [field.name for field in fields(cls)]
    if value is None or not isinstance(value, dict):
        raise ModelsFileError(f"{place} is {value!r}: it must be a mapping with {', '.join(names)}")
    for key in value:
        if key not in names:
            raise ModelsFileError(f"{place}: {key!r} is not a setting: {nearest(str(key), names)}")
    given = {key: item for key, item in value.items() if item is not None}
    for field in fields(cls):
        if field.default is field.default_factory and field.name not in given:
            raise ModelsFileError(f"{place} has no {field.name}: give it a value")
    return given


def entries(value: object, place: str) -> list[tuple[str, object]]:
    if not isinstance(value, dict) or not value:
        raise ModelsFileError(f"{place} is {value!r}: it must be a mapping with at least one entry")
    return [(str(key), item) for key, item in value.items()]


def choice(value: object, place: str, choices: object) -> str | None:
    names = list(choices)  # pyrefly: ignore
    if value is None or value in names:
        return value  # pyrefly: ignore
    raise ModelsFileError(f"{place}={value!r} is not known: {nearest(str(value), names)}")


def non_negative_number(value: object, place: str, most: float = math.inf) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value <= most
    ):
        limit = "" if most == math.inf else f" and at most {most:g}"
        raise ModelsFileError(f"{place}={value!r} must be a finite number that is not negative{limit}")
    return float(value)


def positive_integer(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelsFileError(f"{place}={value!r} must be a whole number above 0")
    return value


def checked_bools(given: dict, place: str) -> dict:
    for key, value in given.items():
        if not isinstance(value, bool):
            raise ModelsFileError(f"{place}.{key}={value!r} must be true or false")
    return given
