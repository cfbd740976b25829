"""A ring's part of a checkpoint: rows that are in a file already are linked, new ones written."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.experience.ring import Ring
from rl_training.experience.segments import RowLog, Segment

SEGMENT_BYTES = 2**28  # of rows in a file: so much is read at a time


class ReplayState:
    """A saver and loader of a replay's rows that remembers which are in checkpoint files, to write only new ones."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.forget()

    def forget(self) -> None:
        """Forgets which rows are in files, so that the next checkpoint writes all of them again."""
        self.log = RowLog(torch.zeros(self.ring.num_envs, dtype=torch.long))

    def write(self) -> dict:
        ring, columns = self.ring, self.ring.columns
        waiting = ring.row_of(columns.written)
        state = {
            "rows": self.extend_log(),
            "waiting": {name: column[waiting] for name, column in ring.named_columns().items()},
            "written": columns.written,
            "first": ring.first,
        }
        if columns.priority:
            state |= {"priority": list(columns.priority), "highest": columns.highest}
        return state

    def extend_log(self) -> RowLog:
        """Returns the log of all stored rows, as segments: the rows since the last call are added as further ones.

        Segments whose rows are all overwritten are dropped. If a file of one is gone, all rows form new segments.
        """
        ring = self.ring
        written = ring.columns.written.to("cpu", copy=True)
        oldest = (written - ring.slots + 1).clamp(min=0)
        kept = [s for s in self.log.segments if bool((s.stop > oldest).any())]
        start = torch.maximum(kept[-1].stop if kept else oldest, oldest)
        if not all(segment.available for segment in kept):  # somebody deleted files: all that is still here, anew
            kept, start = [], oldest
        columns = ring.named_columns()
        longest = max(1, SEGMENT_BYTES // (ring.num_envs * sum(column[0].nbytes for column in columns.values())))
        for _ in range(0, int((written - start).max()), longest):  # one segment each, up to the longest of the columns
            stop = torch.minimum(start + longest, written)
            row = ring.rows_between(start.to(ring.device), stop.to(ring.device))
            kept.append(Segment(start, stop, {name: column[row].cpu() for name, column in columns.items()}))
            start = stop
        self.log = RowLog(oldest, kept)
        return self.log

    def read(self, state: dict) -> None:
        ring, columns = self.ring, self.ring.columns
        self.log = state["rows"].saved()
        for segment in state["rows"].segments:
            self.write_rows(ring.rows_between(segment.start, segment.stop).to(ring.device), segment.read())
        columns.written.copy_(state["written"])
        waiting = ring.row_of(columns.written)
        self.write_rows(waiting, state["waiting"])
        ring.first = state["first"].to(ring.device)
        if ring.frame_stack > 1 and "behind" not in state["waiting"]:  # of version 0.2, whose files have other columns
            columns.behind[waiting] *= ~ring.first
            self.forget()
        ring.find_ends()
        if columns.priority:
            for level, saved in zip(columns.priority, state["priority"], strict=True):
                level.copy_(saved)  # sums too: added up anew, in another order, they might differ in the last bit
            columns.highest.copy_(state["highest"])

    def write_rows(self, row: Tensor, rows: dict[str, Tensor]) -> None:
        """Writes saved columns, tensors [rows, ...] by name, to the rows of the replay with the indices `row`."""
        if "age" in rows:  # version 0.2 saved it for frame stacks
            rows = {"behind": rows["age"].clamp(max=self.ring.frame_stack - 1).to(torch.int16)} | rows
        for name, column in self.ring.named_columns().items():
            column[row] = rows[name].to(column.device)
