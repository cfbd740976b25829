"""Limits on requests per minute: token buckets that all workers of a server share."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from rl_base.file_lock import lock, unlock
from sage.serve.access.keys import MOST_KEYS

NUMBER = 8  # bytes


class Buckets:
    """Token buckets, one for each key: a bucket holds the requests of one minute and is filled at the rate of the key's
    limit.

    Each is one number in a small file that workers map into memory: the time at which the bucket will be full.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Opens the file with the buckets, and makes it if needed; None keeps them in the memory of this process."""
        self._descriptor = -1
        if path is not None:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if os.fstat(self._descriptor).st_size < MOST_KEYS * NUMBER:
                os.truncate(path, MOST_KEYS * NUMBER)
        self._memory = mmap.mmap(self._descriptor, MOST_KEYS * NUMBER)
        self._full_at = memoryview(self._memory).cast("d")

    def take(self, number: int, per_minute: int, now: float) -> float:
        """Takes one request out of the bucket of the key with this number and returns 0.0; if it is empty, returns the
        seconds until there is one. `now` is in seconds."""
        if self._descriptor >= 0:
            lock(self._descriptor, wait=True)
        try:
            refill_s = 60.0 / per_minute
            full_at = max(self._full_at[number], now)
            full_at = min(full_at, now + 60.0)  # a clock that was set back, or another limit than before
            if full_at + refill_s > now + 60.0 + 1e-9:
                return full_at + refill_s - now - 60.0
            self._full_at[number] = full_at + refill_s
            return 0.0
        finally:
            if self._descriptor >= 0:
                unlock(self._descriptor)

    def close(self) -> None:
        self._full_at.release()
        self._memory.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
