"""The needs that an algorithm declares, and the facts about its experience that its settings are checked against."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

ExperienceKind = Literal["rollout", "replay", "data"]  # data: never from its own steps


class Needs(NamedTuple):
    """The kind of experience that an algorithm needs, and the algorithm's defaults for that experience's settings."""

    experience: ExperienceKind
    settings: Mapping[str, object] = MappingProxyType({})  # of its experience, where it has other defaults
    dataset: bool = False  # True: without one it would be another method


class Supply(NamedTuple):
    """Facts about an experience (rows to draw from, steps per iteration) to check an algorithm's settings against."""

    num_rows: int  # the most that a batch can be drawn from
    name: str  # of that number, in a sentence
    remedy: str  # what makes it larger
    num_steps: int = 0  # env steps of an iteration, of all environments together
    weighted: bool = False  # True: some rows are drawn more often, and each says how likely it was

    def check_batch_size(self, batch_size: int) -> None:
        """Raises a ValueError if `batch_size` exceeds the number of rows that batches are drawn from."""
        if batch_size > self.num_rows:
            raise ValueError(
                f"algorithm.batch_size={batch_size} is larger than {self.name}: lower batch_size or {self.remedy}"
            )


class Absent(NamedTuple):
    """The reason why an algorithm lacks a setting that related ones have, and its value that files may still hold."""

    why: str
    held: object  # which is taken for nothing
    same_as: str | None = None  # and so is the value of this setting
