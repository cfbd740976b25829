"""Rows that never change once written: saved once as a file, then linked from checkpoint to checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from rl_training.core import owned

NamedColumns = dict[str, Tensor]  # as `Ring.named_columns` gives them


def numbers_between(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the environment and the number of every row from `start` to `stop` (exclusive), as two vectors.

    `start` and `stop` [num_envs] count each environment's rows; the result is ordered by environment.
    """
    lengths = stop - start
    env = torch.repeat_interleave(torch.arange(len(lengths), device=start.device), lengths)
    before = lengths.cumsum(0) - lengths
    return env, torch.arange(len(env), device=start.device) - before[env] + start[env]


@dataclass
class Segment:
    """A block of a replay's rows that never change: the numbers `start` to `stop` (exclusive) of every environment.

    Rows are numbered since the run began. Their columns are in memory until they are on disk.
    """

    start: Tensor
    stop: Tensor
    rows: NamedColumns | None = None
    path: Path | None = None
    identity: tuple[int, ...] = ()  # of the file at `path`: another may take its name
    sha256: str | None = None

    @property
    def available(self) -> bool:
        return self.rows is not None or self.on_disk

    @property
    def on_disk(self) -> bool:
        return self.path is not None and identify(self.path) == self.identity

    def read(self) -> NamedColumns:
        """Returns the columns of these rows, tensors [rows, ...] by name, ordered by environment.

        Raises a FileNotFoundError if the file is gone or was replaced.
        """
        if self.rows is not None:
            return self.rows
        if self.path is None or not self.on_disk:
            raise FileNotFoundError(f"the rows that were saved in {self.path} are gone or were replaced")
        return {name: column for name, column in read_tensors(self.path).items() if name not in ("start", "stop")}

    def write(self, path: Path) -> bool:
        """Writes the rows to the file `path`, by a hard link if another file has them; returns False if that worked.

        Returns True if bytes were written, also where links are not possible.
        """
        if self.path is None or not self.on_disk:
            rows = {name: column.contiguous() for name, column in self.read().items()}
            save_file(rows | {"start": self.start, "stop": self.stop}, path)
            return True
        try:
            os.link(self.path, path)
        except OSError:  # a file system without links, or another one
            shutil.copyfile(self.path, path)
            return True
        return False

    def written_to(self, path: Path, sha256: str) -> None:
        """Notes that the file with these rows is at `path` now, with this checksum, and frees them in memory."""
        self.path, self.rows, self.identity, self.sha256 = path, None, identify(path), sha256

    @classmethod
    def open(cls, path: Path, sha256: str) -> Segment:
        bounds = read_tensors(path, ("start", "stop"))
        return cls(bounds["start"], bounds["stop"], None, path, identify(path), sha256)


def read_tensors(path: Path, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Returns tensors of a safetensors file by name, those in `names` (None: all), copied into memory of their own.

    They are copied because tensors in a mapped file are not aligned.
    """
    with safe_open(path, "pt") as file:
        return {name: owned(file.get_tensor(name)) for name in (file.keys() if names is None else names)}


def identify(path: Path) -> tuple[int, ...]:
    """Returns numbers that identify a file: links and renames keep them, a replacement changes them.

    Returns () if there is no file at `path`.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass
class RowLog:
    """A list of segments, blocks of rows in the order of writing, that hold a replay's rows.

    Rows with numbers below `oldest` [num_envs] were overwritten and no longer count.
    """

    oldest: Tensor
    segments: list[Segment] = field(default_factory=list)

    def forget_unsaved(self) -> None:
        """Drops the first segment that is in no file and all after it; the next save writes their rows again.

        A segment is a block of a replay's rows.
        """
        self.segments = list(takewhile(lambda segment: segment.rows is None, self.segments))

    def saved(self) -> RowLog:
        """Returns a new log of the segments, blocks of rows, before the first that is in no file."""
        log = RowLog(self.oldest, self.segments)
        log.forget_unsaved()
        return log

    def in_memory(self) -> RowLog:
        """Returns a log with one segment in memory, which has all rows that were not overwritten.

        It has no segments if this log has none.
        """
        if not self.segments:
            return RowLog(owned(self.oldest))
        return RowLog(owned(self.oldest), [Segment(owned(self.oldest), owned(self.segments[-1].stop), self.live())])

    def live(self) -> NamedColumns:
        """Returns the columns, tensors [rows, ...] by name, of all rows that were not overwritten.

        They are ordered by environment and number. Returns {} if the log is empty.
        """
        parts: list[NamedColumns] = []
        keys: list[Tensor] = []
        for segment in self.segments:
            env, number = numbers_between(segment.start, segment.stop)
            alive = number >= self.oldest[env]
            parts.append({name: column[alive] for name, column in segment.read().items()})
            keys.append(torch.stack([env[alive], number[alive]]))
        if not parts:
            return {}
        env, number = torch.cat(keys, 1)
        order = torch.argsort(env * (number.max() + 1) + number) if len(env) else env
        return {name: torch.cat([part[name] for part in parts])[order] for name in parts[0]}
