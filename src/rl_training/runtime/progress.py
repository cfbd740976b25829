"""The progress of a run: two clocks, and statistics of its evaluations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import Literal, Self

from rl_training.core import Pass

Unit = Literal["env_steps", "updates"]
UNITS: dict[Unit, str] = {"updates": "updates from data alone", "env_steps": "env steps"}  # for sentences
Methods = tuple[str, ...]  # of an algorithm that take one batch, in this order


@dataclass
class Progress:
    """The counts of a run, with separate clocks for env steps and for updates without them, and evaluation returns."""

    env_steps: int = 0
    offline_updates: int = 0  # taken in phases without a collector
    updated_at: int = 0  # timesteps when the last update ended: what schedules see
    iterations: int = 0
    gradient_steps: int = 0  # all updates
    episodes: int = 0
    wall_time: float = 0.0
    best_return: float | None = None  # of all evaluations so far
    switch_return: float | None = None  # of the last evaluation before the first env step, if data came first
    lowest_since: float | None = None  # of the evaluations since
    return_since: float = 0.0  # the sum of their returns
    num_since: int = 0
    env_key: str | None = None  # of the phase that took the last env steps: its episodes are open

    @property
    def timesteps(self) -> int:
        """The sum of both clocks, in which a run's horizon and `stop_at` are given."""
        return self.env_steps + self.offline_updates

    @property
    def text(self) -> str:
        """The clocks with their units as text, such as "1,000 env steps"; a clock that has not begun is left out."""
        shown = [f"{self.shown(unit):,} {name}" for unit, name in UNITS.items() if self.shown(unit)]
        return " and ".join(shown) or "0 env steps"

    def shown(self, unit: Unit) -> int:
        """Returns the count of one clock: env steps, or updates taken in phases without a collector."""
        return self.env_steps if unit == "env_steps" else self.offline_updates

    def due(self, a_pass: Pass, number: int) -> Methods:
        """Counts one update and returns the names of the methods that take its batch: the pass's, then periodic ones.

        `number` is the update's, from 1, in the iteration. For methods that are due by steps, the steps since the last
        iteration count as spread evenly over its updates.
        """
        self.gradient_steps += 1
        before = self.updated_at
        new = self.timesteps - before
        now, then = (before + new * n // a_pass.rounds for n in (number, number - 1))
        counted = (
            extra.method
            for extra in a_pass.periodic
            if (
                self.gradient_steps % extra.every == 0
                if extra.unit == "updates"
                else now // extra.every > then // extra.every
            )
        )
        return (a_pass.method, *counted)

    def count_evaluation(self, mean: float) -> None:
        self.best_return = mean if self.best_return is None else max(self.best_return, mean)
        if self.offline_updates and not self.env_steps:
            self.switch_return = mean
        elif self.switch_return is not None:
            self.lowest_since = mean if self.lowest_since is None else min(self.lowest_since, mean)
            self.return_since += mean
            self.num_since += 1

    @property
    def switch_dip(self) -> float | None:
        """The return before the switch from data to env steps minus the lowest since, at least 0; else None.

        None means that there was no switch, or no evaluation on one side of it.
        """
        if self.switch_return is None or self.lowest_since is None:
            return None
        return max(0.0, self.switch_return - self.lowest_since)

    @property
    def online_return(self) -> float | None:
        """The mean return of the evaluations since the switch from data to an environment; None without one."""
        return self.return_since / self.num_since if self.num_since else None

    @property
    def switch_regret(self) -> float | None:
        """The best evaluation of the run minus `online_return`; None without an evaluation since the switch."""
        if self.online_return is None or self.best_return is None:
            return None
        return self.best_return - self.online_return

    def to_state(self) -> dict:
        """Returns the fields as a dict for a checkpoint, in which `env_key` is called "place"."""
        state = asdict(self)
        return state | {"place": state.pop("env_key")}

    @classmethod
    def from_state(cls, state: dict) -> Self:
        """Builds the progress from its dict in a checkpoint; raises TypeError for a wrong type or a negative count.

        Version 0.1.0 kept both clocks as their sum "timesteps", which is converted.
        """
        names = {"place": "env_key"}
        state = {names.get(name, name): value for name, value in state.items() if name != "recent"}
        if "timesteps" in state:
            state["env_steps"] = state.pop("timesteps") - state["offline_updates"]
        found = cls(**state)
        for name, value in asdict(found).items():
            number = Real if "return" in name or name in ("wall_time", "lowest_since") else int
            missing = value is None and getattr(cls, name) is None
            right = isinstance(value, str if name == "env_key" else number)
            if not missing and (not right or (number is int and isinstance(value, int) and value < 0)):
                raise TypeError(f"progress.{name} is {value!r}")
        return found
