"""Writing of HDF5 files: the library crashes if a disk is full, so failures are hidden from it until the end."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.data.formats.foreign import library

if TYPE_CHECKING:
    import h5py


PIECE = 1 << 28  # bytes; Linux takes up to 2 GB in one call


class UnfailingFile(io.RawIOBase):
    """A file for writing that keeps its first error in `failure` instead of raising it, and ignores all later writes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("w+b", buffering=0)
        self.failure: OSError | None = None

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        try:
            for start in range(0, len(view) if self.failure is None else 0, PIECE):
                self.write_piece(view[start : start + PIECE])
        except OSError as error:
            self.failure = error
        return len(view)

    def write_piece(self, piece: memoryview) -> None:
        """Writes a piece, in two writes if the first was partial; raises an OSError if the disk is full."""
        done = self.file.write(piece) or 0
        if done < len(piece) and (self.file.write(piece[done:]) or 0) < len(piece) - done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, size: int | None = None, /) -> int:
        try:
            if self.failure is None:
                self.file.truncate(size)
        except OSError as error:
            self.failure = error
        return size or 0

    def readinto(self, buffer) -> int:
        """Reads as files do; what was not written after the first failure is read as zeros, not left as it was."""
        done = self.file.readinto(buffer) or 0
        if self.failure is not None:
            view = memoryview(buffer).cast("B")
            view[done:] = bytes(len(view) - done)
        return done

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        self.file.close()
        super().close()


@contextmanager
def new_hdf5(path: Path, *, track_order: bool = False) -> Iterator[h5py.File]:
    """Opens a new HDF5 file for writing.

    If a write failed, e.g. on a full disk, the end of the block raises the OSError.
    """
    target = UnfailingFile(path)
    try:
        try:
            with library("h5py").File(target, "w", track_order=track_order) as file:
                yield file
        except (
            OSError,
            RuntimeError,
            ValueError,
            KeyError,
            OverflowError,
        ):  # of a library that reads what was not written
            if target.failure is None:
                raise
        if target.failure is not None:
            raise target.failure
    finally:
        target.close()
