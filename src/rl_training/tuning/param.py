"""One setting that is searched: where it stands in a config, and the values that it may take."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from rl_base.strict_yaml import parse_yaml
from rl_training.config import ConfigError
from rl_training.config.overrides import apply_override
from rl_training.config.parsing import as_float
from rl_training.config.presets import one_line

Value = float | int | str  # of a choice, the text of its YAML
FORMS = "log:LOW:HIGH, lin:LOW:HIGH, int:LOW:HIGH or choice:A,B,C"
KINDS = ("log", "lin", "int", "choice")
KEPT = 0.75  # of the settings of a better member that are perturbed, the others are drawn again (arXiv:1711.09846)
FACTORS = (0.8, 1.25)


@dataclass(frozen=True)
class Param:
    """A setting that is searched and its values: a range, on a linear or logarithmic scale, or a list of choices.

    For example `algorithm.learning_rate=log:1e-5:1e-2`.
    """

    path: str
    text: str  # as it was given, without the path
    kind: str
    low: float = 0.0
    high: float = 0.0
    points: int | None = None  # of a grid
    choices: tuple[str, ...] = ()

    @property
    def ends(self) -> list[Value]:
        """Returns the lowest and highest value of a range, or all choices; a config that takes these takes all."""
        return list(self.choices) or [self.number(self.low), self.number(self.high)]

    @property
    def values(self) -> list[Value]:
        """Returns the values that a grid tries: all choices, or `points` values evenly spaced on the range's scale."""
        if self.choices:
            return list(self.choices)
        count = self.points or 1
        shares = [i / max(count - 1, 1) for i in range(count)]
        return list(dict.fromkeys(self.at(share) for share in shares))

    def at(self, share: float) -> Value:
        """Returns the value at a share of the range, 0 (its low end) to 1, on its scale; rounded for kind int."""
        if self.kind == "log":
            return self.number(math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low))))
        return self.number(self.low + share * (self.high - self.low))

    def share_of(self, value: Value) -> float:
        """Returns the place of a value between low (0) and high (1), on the setting's scale, or among the choices."""
        if self.choices:
            return self.choices.index(str(value)) / max(len(self.choices) - 1, 1)
        low, high, number = self.low, self.high, float(value)
        if self.kind == "log":
            low, high, number = math.log(low), math.log(high), math.log(number)
        return (number - low) / (high - low)

    def number(self, value: float) -> Value:
        clipped = min(max(value, self.low), self.high)
        return round(clipped) if self.kind == "int" else clipped

    def perturbed(self, value: Value, chance: random.Random) -> Value:
        """Returns the next value to try after `value` in population-based training, drawn with `chance`.

        With probability 0.75 it is near: 0.8 or 1.25 times `value`, or a neighbouring choice. Otherwise it is any of
        the values.
        """
        if chance.random() > KEPT:
            return chance.choice(self.choices) if self.choices else self.at(chance.random())
        if self.choices:
            place = self.choices.index(str(value)) + chance.choice((-1, 1))
            return self.choices[min(max(place, 0), len(self.choices) - 1)]
        moved = self.number(float(value) * chance.choice(FACTORS))
        if self.kind == "int" and moved == value:
            moved = self.number(float(value) + chance.choice((-1, 1)))
        return moved


def parse_param(text: str) -> Param:
    """Parses `SECTION.FIELD=FORM`, the text after --param; raises ConfigError if it is malformed."""
    path, separator, form = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not separator or "." not in path:
        raise ConfigError(f"--param {text!r} must look like SECTION.FIELD=FORM; a form is {FORMS}")
    return parse_form(path.strip(), form.strip())


def parse_form(path: str, form: str) -> Param:
    """Parses the values that setting `path` may have, text such as `log:1e-5:1e-2`; raises ConfigError if malformed."""
    if not isinstance(form, str):
        raise ConfigError(f"{path}={form!r} must be text: {FORMS}")
    kind, _, rest = form.partition(":")
    if kind not in KINDS:
        raise ConfigError(f"{path}={form} begins with {kind!r}, which is no form: write {FORMS}")
    if kind == "choice":
        return Param(path, form, kind, choices=parse_choices(path, form, rest))
    parts = rest.split(":")
    numbers = [as_float(part) for part in parts]
    if len(parts) not in (2, 3) or any(number is None or not math.isfinite(number) for number in numbers):
        raise ConfigError(f"{path}={form} must have two numbers, {kind}:LOW:HIGH, and for a grid a third, the points")
    low, high, *points = (number for number in numbers if number is not None)
    if kind == "int" and not (low.is_integer() and high.is_integer()):
        raise ConfigError(f"{path}={form} must have whole numbers: use lin:{parts[0]}:{parts[1]} for fractions")
    if low >= high:
        raise ConfigError(f"{path}={form} has no value between its ends: give the lower one first")
    if kind == "log" and low <= 0:
        raise ConfigError(f"{path}={form} begins at {low:g}, which has no logarithm: begin above 0, or use lin")
    if points and (points[0] < 2 or not points[0].is_integer()):
        raise ConfigError(f"{path}={form} asks for a grid of {points[0]:g} points: give a whole number, at least 2")
    return Param(path, form, kind, low, high, int(points[0]) if points else None)


def parse_choices(path: str, form: str, rest: str) -> tuple[str, ...]:
    try:
        found = parse_yaml(f"[{rest}]")
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}={form} is no list of choices: write choice:A,B,C, with lists as [64,64]") from error
    assert isinstance(found, list)
    choices = tuple(one_line(value) for value in found)
    if len(choices) < 2 or len(set(choices)) < len(choices):
        raise ConfigError(f"{path}={form} must name at least two different choices, choice:A,B")
    return choices


def with_params(values: dict, params: Mapping[str, Value]) -> dict:
    """Returns a copy of config data in which the settings `params`, by path, have these values."""
    for path, value in params.items():
        text = value if isinstance(value, str) else repr(value)
        values = apply_override(values, f"{path}={text}")
    return values
