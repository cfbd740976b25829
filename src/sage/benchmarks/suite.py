"""Suites of `sage bench`, one YAML file each: the table, the held-out tasks, and the static table's model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path

import yaml

from rl_base.strict_yaml import parse_yaml
from sage.files import read_text
from sage.outcomes.table import OutcomeTable

BUNDLED = "bundled:"
TASKS = files("sage.benchmarks") / "tasks"
ASSETS = files("sage") / "assets"


class SuiteError(ValueError):
    """A suite that cannot be run; the message names the field and the fix."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The settings of one suite.

    Raises SuiteError for a value out of range.
    """

    name: str
    table: str  # 'bundled:NAME', or a file made by `sage log import`
    static: str  # the model that the team's table would choose
    held_out_by: str = "task"  # or 'category'
    train_fraction: float = 0.6
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the split and of all that is drawn
    models: tuple[str, ...] = ()  # empty: all of the table

    def __post_init__(self) -> None:
        if self.held_out_by not in ("task", "category"):
            raise SuiteError(f"held_out_by={self.held_out_by!r} must be 'task' or 'category'")
        if not self.seeds or not all(type(seed) is int and seed >= 0 for seed in self.seeds):
            raise SuiteError(f"seeds={list(self.seeds)!r} must be one or more whole numbers that are not negative")
        if not isinstance(self.train_fraction, int | float) or not 0 < self.train_fraction < 1:
            raise SuiteError(f"train_fraction={self.train_fraction!r} must lie between 0 and 1")

    def open_table(self, place: str | None = None) -> OutcomeTable:
        """Opens the suite's table, from `place` if given, with the suite's models only.

        Raises SuiteError if a bundled table does not exist, or if the table lacks the static table's model.
        """
        place = place or self.table
        path = Path(place)
        if place.startswith(BUNDLED):
            path = Path(str(ASSETS / f"{place.removeprefix(BUNDLED)}.npz"))
            if not path.is_file():
                raise SuiteError(f"table={place!r}: no table of this name comes with sage")
        table = OutcomeTable.open(path)
        table = table.with_models(self.models) if self.models else table
        if self.static not in table.models:
            raise SuiteError(f"static={self.static!r} is not a model of the table: it has {', '.join(table.models)}")
        return table


def read_suite(path: Path | None) -> tuple[Suite, str]:
    """Returns a suite and its text; None reads the bundled synthetic one.

    Raises SuiteError if the file is missing or is no suite.
    """
    if path is None:
        text, where = (TASKS / "synthetic.yaml").read_text(encoding="utf-8"), "synthetic.yaml"
    else:
        if not path.is_file():
            raise SuiteError(
                f"{path}: there is no such suite: give a YAML file, or leave --suite out for the bundled one"
            )
        text, where = read_text(path), str(path)
    return parse_suite(text, where), text


def parse_suite(text: str, where: str) -> Suite:
    try:
        values = parse_yaml(text)
    except yaml.YAMLError as error:
        raise SuiteError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise SuiteError(f"{where}: a suite is a mapping with name, table and static")
    known = {field.name for field in fields(Suite)}
    unknown, missing = set(values) - known, {"name", "table", "static"} - set(values)
    if unknown or missing:
        problem = f"{sorted(missing)[0]!r} is missing" if missing else f"{sorted(map(str, unknown))[0]!r} is not known"
        raise SuiteError(f"{where}: the field {problem}: fields are {', '.join(f.name for f in fields(Suite))}")
    given: dict = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name in ("seeds", "models"):
        if not isinstance(given.get(name, ()), tuple):
            raise SuiteError(f"{where}: {name}={given[name]!r} must be a list")
    for name in ("name", "table", "static"):
        if not isinstance(values[name], str):
            raise SuiteError(f"{where}: {name}={values[name]!r} must be text")
    try:
        return Suite(**given)
    except SuiteError as error:
        raise SuiteError(f"{where}: {error}") from error
