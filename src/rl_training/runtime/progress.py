"""Where a run stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import Self


@dataclass
class Progress:
    """The run's counts, and what its evaluations amount to."""

    timesteps: int = 0  # the run's clock: env steps, and updates that were taken without any
    offline_updates: int = 0  # of these, updates from data alone
    updated_at: int = 0  # timesteps when the last update ended: what schedules see
    iterations: int = 0
    gradient_steps: int = 0
    episodes: int = 0
    wall_time: float = 0.0
    best_return: float | None = None  # of all evaluations so far
    switch_return: float | None = None  # of the last evaluation before the first env step, if data came first
    lowest_since: float | None = None  # of the evaluations since

    @classmethod
    def from_state(cls, state: dict) -> Self:
        """Reads what a checkpoint holds of it."""
        found = cls(**{name: value for name, value in state.items() if name != "recent"})
        for name, value in asdict(found).items():
            kind = Real if "return" in name or name in ("wall_time", "lowest_since") else int
            missing = value is None and getattr(cls, name) is None
            if not missing and (not isinstance(value, kind) or (kind is int and value < 0)):
                raise TypeError(f"progress.{name} is {value!r}")
        return found

    @property
    def env_steps(self) -> int:
        return self.timesteps - self.offline_updates

    def count_evaluation(self, mean: float) -> None:
        self.best_return = mean if self.best_return is None else max(self.best_return, mean)
        if self.offline_updates and not self.env_steps:
            self.switch_return = mean
        elif self.switch_return is not None:
            self.lowest_since = mean if self.lowest_since is None else min(self.lowest_since, mean)
