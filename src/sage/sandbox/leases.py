"""Leases: a locked file for everything that could outlive its process, so that the next process can clean up."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl_base.file_lock import fcntl, lock

LOCKS_WORK = fcntl is not None or sys.platform == "win32"


class Lease:
    """A folder that belongs to this process as long as it lives.

    The system releases its lock, however the process ends.
    """

    def __init__(self, leases: Path) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self.folder = leases / self.name
        with locked(leases / ".lock"):
            self.folder.mkdir()
            self.file = (self.folder / "lock").open("ab")
            lock(self.file.fileno(), wait=True)

    def release(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock on a file during the block; waits for it without limit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        lock(file.fileno(), wait=True)
        yield


def is_held(lease: Path) -> bool:
    """Returns True if the process that took the lease still lives, or if files cannot be locked here."""
    if not LOCKS_WORK:
        return True
    try:
        with (lease / "lock").open("r+b") as file:
            lock(file.fileno(), wait=False)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
