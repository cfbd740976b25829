"""Hyperparameters that change over a run: plain numbers in a config, tensors in the maths."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from rl_training.core.entry_points import find, register

FUNCTIONS: dict[str, Callable] = {}  # of progress, handed over in Python, by the name that stands in the config
Shape = Literal["linear", "cosine"]
SHAPES: dict[str, Shape] = {"lin_": "linear", "cos_": "cosine"}  # by how texts begin that end at zero
FIELDS = {"initial", "final", "fraction", "shape"}
NUMBER = r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?"


class Range(NamedTuple):
    """Bounds of a number: at least `min`, at most `max`, and greater than `above`; None means no bound."""

    min: float | None = None
    max: float | None = None
    above: float | None = None

    def refusal(self, number: float) -> str | None:
        """Returns the condition that a number violates, e.g. "must be at least 0" or "must be finite"; None if none."""
        if not math.isfinite(number):
            return "must be finite"
        if self.above is not None and number <= self.above:
            return f"must be above {self.above}"
        if self.min is not None and number < self.min:
            return f"must be at least {self.min}"
        if self.max is not None and number > self.max:
            return f"must be at most {self.max}"
        return None

    @property
    def after_the_start(self) -> Range:
        """Returns the range of a schedule's later values, which may equal `above`; only its start must exceed it."""
        return self if self.above is None else Range(self.above, self.max)


@dataclass(frozen=True)
class Schedule:
    """A number that goes from `initial` to `final` over a `fraction` of a run, then stays; or that follows a function.

    It moves linearly, or along half a cosine: slowly at first and at the end, as in arXiv:1608.03983 without restarts.
    """

    initial: float
    final: float
    fraction: float = 1.0
    function: str | None = None  # the name of one that takes the share of the run that is done, 0 to 1
    shape: Shape = "linear"
    setting: str = field(default="schedule", compare=False, repr=False)  # that it belongs to, for sentences
    limits: Range = field(default=Range(), compare=False, repr=False)  # of what a function returns

    def __post_init__(self) -> None:
        if self.function is not None:
            return
        if self.shape not in get_args(Shape):
            raise ValueError(f"Schedule.shape={self.shape!r} is not known: use 'linear' or 'cosine'")
        limits = {"initial": Range(), "final": Range(), "fraction": Range(min=0, max=1)}
        for name, number in ((name, getattr(self, name)) for name in limits):
            is_number = isinstance(number, Real) and not isinstance(number, bool)
            reason = limits[name].refusal(float(number)) if is_number else "must be a number"
            if reason:
                raise ValueError(f"Schedule.{name}={number!r} {reason}")

    @classmethod
    def parse(cls, value: object) -> Schedule:
        """Returns the schedule for a number, 'lin_2.5e-4' or 'cos_2.5e-4' (to zero), a dict of fields, or a function.

        A function is stored in `FUNCTIONS`, for a config to name. Raises a ValueError for any other value.
        """
        if isinstance(value, Schedule):
            return value
        if isinstance(value, bool):
            raise ValueError(f"a schedule is a number, not {value!r}")
        if isinstance(value, Real):  # numpy's are
            return cls(float(value), float(value))
        if isinstance(value, str) and (match := re.fullmatch(rf"(lin_|cos_)?({NUMBER})", value)):
            start = float(match[2])
            return cls(start, 0.0, shape=SHAPES[match[1]]) if match[1] else cls(start, start)
        if isinstance(value, dict) and {"initial", "final"} <= set(value) <= FIELDS:
            shape = value.get("shape", "linear")
            return cls(float(value["initial"]), float(value["final"]), float(value.get("fraction", 1.0)), shape=shape)
        if isinstance(value, dict) and set(value) == {"function"}:
            value = value["function"]
            if isinstance(value, str):
                return cls(math.nan, math.nan, function=value)
        if callable(value):
            return cls(math.nan, math.nan, function=register(value, FUNCTIONS))
        raise ValueError(
            "a schedule is a number, 'lin_<number>', 'cos_<number>', {initial, final, fraction, shape} or a function of "
            f"progress, not {value!r}"
        )

    def to_json(self) -> float | dict[str, float | str]:
        if self.function is not None:
            return {"function": self.function}
        if self.initial == self.final:
            return self.initial
        numbers: dict[str, float | str] = {"initial": self.initial, "final": self.final, "fraction": self.fraction}
        return numbers if self.shape == "linear" else numbers | {"shape": self.shape}

    @property
    def changes(self) -> bool:
        return self.function is not None or self.initial != self.final

    def at(self, progress: float) -> float:
        """Returns the value when `progress` (0 to 1) of the run is done; a function's is checked against `limits`."""
        if self.function is not None:
            return self.checked(find(self.function, FUNCTIONS, self.setting)(progress), progress)
        share = min(progress / self.fraction, 1.0) if self.fraction > 0 else 1.0
        if self.shape == "cosine":
            share = (1 - math.cos(math.pi * share)) / 2
        return self.initial + (self.final - self.initial) * share

    def checked(self, value: object, progress: float) -> float:
        """Returns a user function's value as a float; raises a ValueError if it is not finite or is out of range."""
        call = f"{self.setting} at progress {progress:g}: {self.function}({progress:g})"
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{call} returned {value!r}: a schedule must return a finite number")
        reason = (self.limits if progress == 0 else self.limits.after_the_start).refusal(float(value))
        if reason:
            raise ValueError(f"{call}={value} {reason}")
        return float(value)


ScheduleLike = (
    Schedule | float | Mapping[str, float | str] | Callable[[float], float]
)  # what a Python program may write for one


class Scheduled(nn.Module):
    """A module whose call returns a schedule's present value, 0-dim; `set_progress` changes it in place."""

    value: Tensor

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.register_buffer("value", torch.tensor(schedule.at(0.0), dtype=torch.float32))

    def set_progress(self, progress: float) -> None:
        if self.schedule.changes:
            self.value.fill_(self.schedule.at(progress))

    def forward(self) -> Tensor:
        return self.value
