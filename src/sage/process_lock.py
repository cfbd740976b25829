"""A lock between processes, with a limited wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl_base.file_lock import lock, unlock


class ProcessLock:
    """A lock on the file `path`, which one process at a time can hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: threading.Thread | None = None  # also after patience was lost, and when this is opened again

    def open(self) -> None:
        self.descriptor = self._opened()

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def taken(self, patience_s: float) -> Iterator[None]:
        """Holds the lock during the block; raises TimeoutError if another process keeps it for `patience_s` seconds.

        After that error, every further call raises it at once, until the other process has released the lock.
        """
        try:
            lock(self.descriptor, wait=False)
        except BlockingIOError:
            descriptor = self._wait(patience_s)
            try:
                yield
            finally:
                os.close(descriptor)
            return
        try:
            yield
        finally:
            unlock(self.descriptor)

    def _wait(self, patience_s: float) -> int:
        """Waits for the lock and returns a second descriptor of the file, which holds it.

        Raises TimeoutError after `patience_s` seconds. A thread does the waiting, because a wait for a file lock in
        the kernel has no time limit.
        """
        if self._waiting is not None and self._waiting.is_alive():
            raise TimeoutError(f"another process still holds {self.path.name}")
        ours, settled, given_up = [], threading.Lock(), threading.Event()

        def wait() -> None:
            descriptor = self._opened()
            lock(descriptor, wait=True)
            with settled:
                if given_up.is_set():
                    os.close(descriptor)
                else:
                    ours.append(descriptor)

        self._waiting = threading.Thread(target=wait, daemon=True)
        self._waiting.start()
        self._waiting.join(patience_s)
        with settled:
            if ours:
                return ours[0]
            given_up.set()
        raise TimeoutError(f"another process has held {self.path.name} for {patience_s:g} s")

    def close(self) -> None:
        os.close(self.descriptor)
