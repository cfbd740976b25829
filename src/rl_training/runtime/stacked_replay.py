"""The replays of several members as one store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy

import torch
from torch import Tensor

from rl_training.core import Algorithm, Metrics, Pass, StepBatch, Transition, tree_leaves, tree_map
from rl_training.experience import Experience
from rl_training.experience.allocation import Allocator
from rl_training.experience.base import Prepare, drawn_rows
from rl_training.experience.replay import Replay
from rl_training.experience.ring import RingColumns, as_arrays
from rl_training.runtime.stacked_numbers import MemberNumbers


class StackedReplay(Experience[RingColumns, StepBatch]):
    """The replays of a stack as one; columns, draws and batches have a first dimension [member].

    The code of a replay runs for all of them under `vmap`. Their columns become views of this store's.
    """

    def __init__(self, members: Sequence[Replay], numbers: MemberNumbers, going: Collection[int]) -> None:
        super().__init__(members[0].device)
        self.members, self.numbers, self.going = members, numbers, going  # those that still train
        self.columns = stacked_columns(members)
        self.first = torch.stack([member.ring.first for member in members])  # [member, env]
        self.one = copy(members[0])  # which counts as each of them
        self.ring = self.one.ring = copy(members[0].ring)
        self.ring.by_numpy = self.ring.plain = False
        self.why_not_recorded = self.one.why_not_recorded
        gammas = [member.gamma for member in members]
        self.gamma = torch.tensor(gammas, device=self.device) if len(set(gammas)) > 1 else None  # where they differ

    @property
    def warming_up(self) -> bool:
        return self.one.warming_up

    @property
    def wanted_steps(self) -> int:
        return self.one.wanted_steps

    def steps_between(self, num_envs: int) -> int:
        return self.one.steps_between(num_envs // len(self.members))

    def write(self, steps: Transition) -> None:
        """Writes steps [time, member * env]."""
        theirs = tree_map(lambda x: x.unflatten(1, (len(self.members), -1)).movedim(1, 0), self.one.placed(steps))
        self.first = torch.vmap(self.write_one)(self.columns, self.first, theirs)

    def write_one(self, columns: RingColumns, first: Tensor, steps: Transition) -> Tensor:
        self.ring.columns = self.ring.arrays = columns
        self.ring.first = first
        self.ring.add(steps)
        return self.ring.first

    def count_added(self, num_steps: int) -> None:
        self.one.count_added(num_steps // len(self.members))

    def count_learned(self, passes: Sequence[Pass]) -> None:
        self.one.count_learned(passes)

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[RingColumns, Metrics]:
        return self.columns, {}

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return a_pass.rounds

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        yield (self.numbers.rows(drawn_rows(a_pass)) for _ in range(a_pass.rounds))

    def gather(self, storage: RingColumns, draw: Tensor) -> StepBatch:
        if self.gamma is None:
            return torch.vmap(self.one.gather)(storage, draw)
        return torch.vmap(self.gather_by)(self.gamma, storage, draw)

    def gather_by(self, gamma: Tensor, storage: RingColumns, draw: Tensor) -> StepBatch:
        before, self.one.gamma = self.one.gamma, gamma  # pyrefly: ignore (a number, here of a member)
        try:
            return self.one.gather(storage, draw)
        finally:
            self.one.gamma = before  # compiled code cannot leave a member's there

    def carry(self) -> tuple:
        return (self.first,)

    def set_carry(self, carry: tuple) -> None:
        (self.first,) = carry

    def hand_out(self) -> None:
        """Tells every member what it holds besides the columns, which are its own part of the stack's."""
        for member in self.going:
            self.members[member].ring.first = self.first[member]

    def take_out(self, member: int) -> None:
        """Gives a member memory of its own, so that further steps of the stack do not change its replay."""
        replay = self.members[member]
        allocator = allocator_of(replay)
        for column in tree_leaves(replay.columns):
            move(replay, column, allocator.zeros(tuple(column.shape), column.dtype))
        replay.ring.arrays = as_arrays(replay.columns)

    def cut(self, envs: Tensor | None = None) -> None:
        raise TypeError("the members of a stack cut their own replays")

    def state_dict(self) -> dict:
        raise TypeError("the members of a stack save their own replays")

    def load_state_dict(self, state: dict) -> None:
        raise TypeError("the members of a stack load their own replays")


def stacked_columns(members: Sequence[Replay]) -> RingColumns:
    """Returns the columns of all, [member, row, ...], of which the members' own become views."""
    first, allocator = members[0], allocator_of(members[0])
    size = len(members) * sum(column.nbytes for column in tree_leaves(first.columns))
    if first.device.type == "cpu":  # where memory is taken when it is written to
        name = f"experience.buffer_size={first.settings.buffer_size} of {len(members)} members"
        allocator.check(size, name, f"{size / len(members):,.0f} bytes each")
    together = []
    for columns in zip(*(list(tree_leaves(member.columns)) for member in members), strict=True):
        whole = allocator.zeros((len(members), *columns[0].shape), columns[0].dtype)
        for member, column, place in zip(members, columns, whole, strict=True):
            move(member, column, place)
        together.append(whole)
    for member in members:
        member.ring.arrays = as_arrays(member.columns)
    parts = iter(together)
    return tree_map(lambda column: next(parts), first.columns)


def allocator_of(replay: Replay) -> Allocator:
    return Allocator(replay.ring.device, replay.settings.buffer_folder)


def move(replay: Replay, column: Tensor, place: Tensor) -> None:
    """Moves a column of a replay to other memory, which has zeros; copies only rows that have been written to."""
    ring = replay.ring
    used = min(int(replay.columns.written.max()) + 1, ring.slots) * ring.num_envs
    num = used if len(column) == ring.capacity else len(column)
    place[:num] = column[:num]
    column.data = place
