"""The phases of a run: the store that each learns from, its collector and its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rl_training.core import Algorithm, Pass
from rl_training.experience import Experience
from rl_training.runtime.collector import Collector
from rl_training.runtime.progress import UNITS, Progress, Unit


@dataclass(frozen=True, eq=False)
class Phase:
    """A part of a run: learning from the store `experience` for `budget` env steps or, without a collector, updates."""

    experience: Experience
    collector: Collector | None
    budget: int
    methods: tuple[str, ...] | None = None  # of the algorithm that run; None: all
    env_key: str = ""  # names the collector: phases with the same key go on with the same episodes
    sharers: int = 1  # ranks that share every batch

    @property
    def unit(self) -> Unit:
        return "updates" if self.collector is None else "env_steps"

    @property
    def executor_key(self) -> tuple:
        """The objects that an executor is built for; phases that differ only in their budget share one executor."""
        return self.experience, self.collector, self.methods

    def passes(self, algorithm: Algorithm, num_updates: int | None = None) -> tuple[Pass, ...]:
        """Returns the algorithm's passes, each with this rank's share of the batch, without those not in `methods`.

        `num_updates` replaces the number of updates (`rounds`) of every pass; None keeps it.
        """
        passes = tuple(
            p if p.batch_size is None else replace(p, batch_size=p.batch_size // self.sharers)
            for p in algorithm.passes()
        )
        if self.methods is not None:
            passes = tuple(
                replace(p, periodic=tuple(extra for extra in p.periodic if extra.method in self.methods))
                for p in passes
                if p.method in self.methods
            )
        return passes if num_updates is None else tuple(replace(p, rounds=num_updates) for p in passes)


class PhasePosition(NamedTuple):
    """A phase of a run, its index, and the part of its budget that is done."""

    phase: Phase
    done: int  # of the phase's budget, in its unit
    number: int

    @property
    def left(self) -> int:
        return self.phase.budget - self.done


@dataclass(frozen=True)
class Plan:
    """The phases of a run and its stores; the current phase follows from the run's clocks alone."""

    phases: Sequence[Phase]
    stores: Mapping[str, Experience]  # what the phases learn from, by the name under which each is saved

    @property
    def horizon(self) -> int:
        """The sum of the budgets of all phases, env steps and updates together."""
        return sum(phase.budget for phase in self.phases)

    @property
    def units(self) -> str:
        """The units that the phases count in, as text for a sentence, such as "env steps"."""
        counted = {phase.unit for phase in self.phases if phase.budget}
        return " and ".join(name for unit, name in UNITS.items() if unit in counted) or UNITS["env_steps"]

    @property
    def collectors(self) -> dict[str, Collector]:
        """The collectors of all phases, by their `env_key`."""
        return {phase.env_key: phase.collector for phase in self.phases if phase.collector is not None}

    def positions(self, progress: Progress) -> list[PhasePosition]:
        """Returns the position in every phase: env steps and updates so far are given to the earlier phases first."""
        shown: dict[Unit, int] = {"env_steps": progress.env_steps, "updates": progress.offline_updates}
        found = []
        for number, phase in enumerate(self.phases):
            done = min(phase.budget, shown[phase.unit])
            shown[phase.unit] -= done
            found.append(PhasePosition(phase, done, number))
        return found

    def current(self, progress: Progress) -> PhasePosition:
        """Returns the position in the first phase that is not done or, of a finished run, in the last phase."""
        found = self.positions(progress)
        return next((position for position in found if position.left), found[-1])

    def source(self, progress: Progress) -> Experience:
        """Returns the store of the last phase that has begun, or of the first phase if none has."""
        begun = [position.phase for position in self.positions(progress) if position.done]
        return (begun[-1] if begun else self.phases[0]).experience

    def collector(self, progress: Progress) -> Collector | None:
        """Returns the collector of the current phase, else of the nearest earlier, else later one; None without any."""
        following = self.current(progress).number + 1
        nearest_first = (*reversed(self.phases[:following]), *self.phases[following:])
        return next((phase.collector for phase in nearest_first if phase.collector is not None), None)
