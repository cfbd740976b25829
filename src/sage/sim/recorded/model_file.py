"""The file of `sage sim fit-models`: answers of recorded models in the simulator, the data behind them, and checks of
the fit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from sage.files import read_text, write_json
from sage.sim.recorded.tiers import ASKED, ROLES

FORMAT = 1
LEVELS = ("irt", "replay")
FACTS = ("name", "provenance", "licence", "licence_note", "data_source", "cost_kind", "sha256")


class ModelFileError(ValueError):
    """A file that does not describe models; the message names the field and the fix."""


@dataclass(frozen=True)
class Fitted:
    """Item-response curves of the four models, the distribution of difficulties, and costs by outcome."""

    ability: tuple[float, ...]  # [roles]
    discrimination: tuple[float, ...]  # [roles]
    difficulty: tuple[float, ...]  # [points], rising
    weight: tuple[float, ...]  # [points], of tasks
    failed_usd: tuple[tuple[float, ...], ...]  # [asked][quantiles], at equal steps from the lowest to the highest
    solved_usd: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Row:
    """Scores and costs of the four models on one recorded task."""

    difficulty: float
    held_out: bool  # not for tasks that a policy learns from
    score: tuple[float, ...]  # [roles]
    again: tuple[float, ...]  # [roles], the chance of another attempt that does not repeat the first, by the curves
    cost_usd: tuple[float, ...]  # [asked]


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """Models for the simulator; `answers` are curves at the level irt and recorded rows at the level replay.
    `source["sha256"]` is the table's."""

    level: str
    source: dict[str, str]
    tiers: dict[str, str]  # the model of each role
    units_per_usd: float
    answers: Fitted | tuple[Row, ...]
    checks: dict
    sha256: str = ""  # of the file, if it was read

    def save(self, path: Path) -> None:
        values = {"format": FORMAT} | {name: value for name, value in asdict(self).items() if name != "sha256"}
        write_json(path, values)

    @classmethod
    def open(cls, path: Path) -> ModelFile:
        if not path.is_file():
            raise ModelFileError(f"{path}: there is no such file: make it with `sage sim fit-models`")
        text = read_text(path)
        try:
            values = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ModelFileError(
                f"{path}: not whole JSON ({error}): make it again with `sage sim fit-models`"
            ) from error
        try:
            return parse_model_file(values, hashlib.sha256(text.encode()).hexdigest())
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}: make it again with `sage sim fit-models`") from error


def parse_model_file(values: object, sha256: str) -> ModelFile:
    names = {"format", *(field.name for field in fields(ModelFile))} - {"sha256"}
    values = mapping(values, "the file", names)
    if values["format"] != FORMAT:
        raise ModelFileError(f"format={values['format']!r} is not {FORMAT}")
    if values["level"] not in LEVELS:
        raise ModelFileError(f"level={values['level']!r} must be one of {', '.join(LEVELS)}")
    source, tiers = mapping(values["source"], "source", set(FACTS)), mapping(values["tiers"], "tiers", set(ROLES))
    for where, texts in (("source", source), ("tiers", tiers)):
        wrong = [name for name, value in texts.items() if not isinstance(value, str)]
        if wrong:
            raise ModelFileError(f"{where}.{wrong[0]}={texts[wrong[0]]!r} must be text")
    (units,) = numbers([values["units_per_usd"]], "units_per_usd", 1, above=0)
    if not isinstance(values["checks"], dict):
        raise ModelFileError(f"checks={values['checks']!r} must be a mapping")
    return ModelFile(
        level=values["level"],
        source=source,
        tiers=tiers,
        units_per_usd=units,
        answers=fitted(values["answers"]) if values["level"] == "irt" else rows(values["answers"]),
        checks=values["checks"],
        sha256=sha256,
    )


def fitted(values: object) -> Fitted:
    given = mapping(values, "answers", {field.name for field in fields(Fitted)})
    points = numbers(given["difficulty"], "answers.difficulty")
    weight = numbers(given["weight"], "answers.weight", len(points), above=0)
    if len(points) < 2 or (np.diff(points) <= 0).any():
        raise ModelFileError("answers.difficulty must have two or more numbers, each larger than the one before")
    if abs(sum(weight) - 1) > 1e-6:
        raise ModelFileError(f"answers.weight has the sum {sum(weight):g}: it must be 1")
    return Fitted(
        numbers(given["ability"], "answers.ability", len(ROLES)),
        numbers(given["discrimination"], "answers.discrimination", len(ROLES), above=0),
        points,
        weight,
        quantiles(given["failed_usd"], "answers.failed_usd"),
        quantiles(given["solved_usd"], "answers.solved_usd"),
    )


def quantiles(values: object, where: str) -> tuple[tuple[float, ...], ...]:
    if not isinstance(values, list) or len(values) != len(ASKED):
        raise ModelFileError(f"{where} must have a list for each of {', '.join(ASKED)}")
    found = tuple(numbers(row, f"{where}[{i}]", above=0) for i, row in enumerate(values))
    for i, row in enumerate(found):
        if len(row) < 2 or (np.diff(row) < 0).any():
            raise ModelFileError(f"{where}[{i}] must have two or more numbers, none smaller than the one before")
    return found


def rows(values: object) -> tuple[Row, ...]:
    if not isinstance(values, list):
        raise ModelFileError(f"answers={str(values)[:40]!r} must be a list of rows")
    found = []
    for i, value in enumerate(values):
        where = f"answers[{i}]"
        given = mapping(value, where, {field.name for field in fields(Row)})
        if not isinstance(given["held_out"], bool):
            raise ModelFileError(f"{where}.held_out={given['held_out']!r} must be true or false")
        (difficulty,) = numbers([given["difficulty"]], f"{where}.difficulty", 1)
        score, again = (
            numbers(given[name], f"{where}.{name}", len(ROLES), low=0, high=1) for name in ("score", "again")
        )
        cost = numbers(given["cost_usd"], f"{where}.cost_usd", len(ASKED), above=0)
        found.append(Row(difficulty, given["held_out"], score, again, cost))
    if len({row.held_out for row in found}) < 2:
        raise ModelFileError("answers must have rows that are held out and rows that are not")
    return tuple(found)


def mapping(values: object, where: str, names: set[str]) -> dict:
    if not isinstance(values, dict):
        raise ModelFileError(f"{where} is {str(values)[:40]!r}: it must be a mapping with {', '.join(sorted(names))}")
    missing, unknown = sorted(names - set(values)), sorted(set(map(str, values)) - names)
    if missing or unknown:
        what = f"has no field {missing[0]!r}" if missing else f"has a field {unknown[0]!r}, which is not known"
        raise ModelFileError(f"{where} {what}")
    return values


def numbers(
    values: object,
    where: str,
    count: int | None = None,
    *,
    above: float = -np.inf,
    low: float = -np.inf,
    high: float = np.inf,
) -> tuple[float, ...]:
    """Returns the values as floats; raises ModelFileError unless they are finite numbers within the bounds, and `count`
    of them if it is not None."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        raise ModelFileError(f"{where} must be a list of {'numbers' if count is None else f'{count} numbers'}")
    for value in values:
        plain = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
        if not plain or not above < value or not low <= value <= high:
            bound = (
                f" above {above:g}" if np.isfinite(above) else f" from {low:g} to {high:g}" if np.isfinite(low) else ""
            )
            raise ModelFileError(f"{where} has {value!r}: it must be a finite number{bound}")
    return tuple(float(value) for value in values)
