"""What a method has to be given, and what its settings are told of what it will be given."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

ExperienceKind = Literal["rollout", "replay", "data"]  # data: never from its own steps


class Needs(NamedTuple):
    """What a method declares; a run is built by asking for it, never by what class a config has."""

    experience: ExperienceKind
    settings: Mapping[str, object] = MappingProxyType({})  # of its experience, where it has other defaults
    dataset: bool = False  # True: without one it would be another method


class Supply(NamedTuple):
    """What an experience is going to give, as far as a method's settings depend on it."""

    num_rows: int  # the most that a batch can be drawn from
    name: str  # of that number, in a sentence
    remedy: str  # what makes it larger
    num_steps: int = 0  # env steps of an iteration, of all environments together
    weighted: bool = False  # True: some rows are drawn more often, and each says how likely it was

    def check_batch_size(self, batch_size: int) -> None:
        """Refuses batches that are larger than what they are drawn from."""
        if batch_size > self.num_rows:
            raise ValueError(
                f"algorithm.batch_size={batch_size} is larger than {self.name}: lower batch_size or {self.remedy}"
            )


class Absent(NamedTuple):
    """Why a method does not have a setting of its relatives; older files hold it at a value without effect."""

    why: str
    held: object  # which is taken for nothing
    same_as: str | None = None  # and so is the value of this setting
