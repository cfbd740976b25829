"""Hyperparameters that change over a run: plain numbers in a config, tensors in the maths."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

NUMBER = r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class Schedule:
    """Goes linearly from `initial` to `final` over the first `fraction` of the run, then stays."""

    initial: float
    final: float
    fraction: float = 1.0

    @classmethod
    def parse(cls, value: object) -> Schedule:
        """Accepts a number, `lin_2.5e-4` (to zero), or a mapping with initial, final and fraction."""
        if isinstance(value, Schedule):
            return value
        if isinstance(value, bool):
            raise ValueError(f"a schedule is a number, not {value!r}")
        if isinstance(value, int | float):
            return cls(float(value), float(value))
        if isinstance(value, str) and (match := re.fullmatch(rf"(lin_)?({NUMBER})", value)):
            start = float(match[2])
            return cls(start, 0.0 if match[1] else start)
        if isinstance(value, dict) and {"initial", "final"} <= set(value) <= {"initial", "final", "fraction"}:
            return cls(*(float(value.get(key, 1.0)) for key in ("initial", "final", "fraction")))
        raise ValueError(f"a schedule is a number, 'lin_<number>' or {{initial, final, fraction}}, not {value!r}")

    def to_json(self) -> float | dict[str, float]:
        return self.initial if self.initial == self.final else self.__dict__.copy()

    def at(self, progress: float) -> float:
        """Returns the value when `progress` (0 to 1) of the run is done."""
        share = min(progress / self.fraction, 1.0) if self.fraction > 0 else 1.0
        return self.initial + (self.final - self.initial) * share


class Scheduled(nn.Module):
    """A number that the runtime moves along its schedule; a 0-dim tensor, so that captured code sees the change."""

    value: Tensor

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.register_buffer("value", torch.tensor(schedule.at(0.0), dtype=torch.float32))

    def set_progress(self, progress: float) -> None:
        if self.schedule.initial != self.schedule.final:
            self.value.fill_(self.schedule.at(progress))

    def forward(self) -> Tensor:
        return self.value
