"""Ids of calls that are under way, kept in a file, so that a kill does not lose them.

A worker that is killed cannot report its calls. Their ids are in a file that is mapped into its memory; the next
process that starts finds the file without an owner, and logs these calls as censored.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rl_base.file_lock import lock
from sage.log.lookup import is_accounted
from sage.log.record_checks import TRAFFIC
from sage.orchestrator.backlog import LOG_FAILURES
from sage.orchestrator.model_router import Router

log = logging.getLogger(__name__)
ID = re.compile(rb"[0-9a-f]{32}")  # of a decision
ID_BYTES = 32
MOST = 8192  # calls of a process at a time; what is more is not remembered
KILLED = "proxy: the worker was killed"


class InFlight:
    """The file of this process with the ids of its open calls; `add` and `remove` make no system call. If the file
    cannot be made, no ids are kept."""

    def __init__(self, db: Path) -> None:
        self.path = db.with_name(f"{db.name}.in-flight-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self.places: dict[str, int] = {}
        self.free: list[int] = []
        self.file, self.memory = -1, None
        try:
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
            lock(self.file, wait=True)
            os.write(self.file, bytes(MOST * ID_BYTES))  # so that a disk that is full later has room for it
            self.memory = mmap.mmap(self.file, MOST * ID_BYTES)
        except (OSError, ValueError) as error:
            log.warning(f"{self.path} cannot be made ({error}): calls of a worker that is killed will have no outcome")
        else:
            self.free += range(MOST)

    def add(self, decision_id: str) -> None:
        if self.memory is not None and self.free and len(decision_id) == ID_BYTES:
            place = self.places[decision_id] = self.free.pop()
            self.memory[place * ID_BYTES : (place + 1) * ID_BYTES] = decision_id.encode()

    def remove(self, decision_id: str) -> None:
        place = self.places.pop(decision_id, None)
        if self.memory is not None and place is not None:
            self.memory[place * ID_BYTES : (place + 1) * ID_BYTES] = bytes(ID_BYTES)
            self.free.append(place)

    def close(self) -> None:
        """Closes the file, and deletes it if no call is open; remaining ids are left for the next process that
        starts."""
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        if self.file >= 0:
            if not self.places:
                with suppress(OSError):  # the next start finds it empty
                    self.path.unlink()
            os.close(self.file)
            self.file = -1


def censor_abandoned(router: Router) -> int:
    """Logs open calls of processes that are gone as censored, unless they have an outcome; returns how many there
    were."""
    count = 0
    for path, ids in abandoned(router.log.path):
        try:
            for decision_id in ids:
                if not is_accounted(router.log, decision_id):
                    router.outcome(decision_id, timed_out=True, provenance=KILLED, source=TRAFFIC)
                    count += 1
        except LOG_FAILURES as error:
            log.warning(f"{path} is left for the next start: {error}")
        else:
            path.unlink(missing_ok=True)
    if count:
        log.warning(f"{count} calls of a worker that was killed are logged as censored")
    return count


def abandoned(db: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yields (path, decision ids) of the files whose process is gone, for the log at `db`; a file is locked while it is
    yielded."""
    for path in sorted(db.parent.glob(f"{db.name}.in-flight-*")):
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:  # another worker was faster
            continue
        except OSError as error:  # a folder that became read-only: calls are served all the same
            log.warning(f"{path} is left for the next start: {error}")
            continue
        try:
            lock(file, wait=False)
            content = os.read(file, MOST * ID_BYTES)
            parts = [content[start : start + ID_BYTES] for start in range(0, len(content), ID_BYTES)]
            yield path, [part.decode() for part in parts if ID.fullmatch(part)]
        except BlockingIOError:  # its process is alive
            continue
        finally:
            os.close(file)
