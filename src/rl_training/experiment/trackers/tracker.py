"""The contract of trackers: programs or services, such as TensorBoard, that runs send their metrics to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

Status = Literal["finished", "paused", "failed"]


class Record(NamedTuple):
    """Metrics that were measured at one moment of a run."""

    timesteps: int
    time: float  # seconds since 1970
    metrics: Mapping[str, float]


class TrackedRun(NamedTuple):
    """The facts about a run that a tracker is given when the run starts."""

    folder: Path
    name: str
    group: str | None  # a name that the seeds of one experiment share
    project: str
    config: Mapping[str, object]  # path, such as "env.id", to a plain value
    timesteps: int  # at which it starts, or continues


class Tracker(ABC):
    """Base of the trackers: one object per run, whose methods are called one after the other in a thread of its own.

    Any of them may raise an error, which the run survives.
    """

    name: ClassVar[str]
    package: ClassVar[str]  # that `start` imports
    advice: ClassVar[str]  # what to do if it fails
    seconds_between_batches: ClassVar[float] = 0.0  # records that arrive meanwhile are sent together

    @abstractmethod
    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        """Begins a run, or continues the one that `before` describes, and returns its own description.

        The description is kept in the run directory; `before` is empty in a new run.
        """

    @abstractmethod
    def log(self, records: list[Record]) -> None:
        """Writes or sends metrics."""

    @abstractmethod
    def finish(self, status: Status) -> None:
        """Writes or sends what is left, and ends the run."""
