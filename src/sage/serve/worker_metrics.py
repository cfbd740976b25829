"""Metrics of all processes of one server: each writes its own to a folder, and whoever is asked adds all of them up.

What a scrape shows comes from the files, its own included, so that no counter is ever smaller in the next scrape, whichever
process answers that: Prometheus takes a smaller counter for a restart.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sage.upstream.metrics import Metrics

log = logging.getLogger(__name__)
ENDED = "ended"  # the file of all processes that have ended, beside one for each that runs
WRITE_EVERY_S = 1.0  # a killed process loses the counts of this time


class WorkerMetrics:
    """The folder of a server's metrics as one of its processes sees it."""

    def __init__(self, folder: Path, own: Callable[[], Metrics]) -> None:
        self.folder = folder
        self.own = own
        self.path = folder / f"{os.getpid()}.json"
        self.failed = False

    def write(self) -> None:
        """Writes what this process has counted; says once in the log if that fails."""
        try:
            write(self.path, {"of": [os.getpid()], **self.own().to_json()})
            self.failed = False
        except OSError as error:
            if not self.failed:
                log.warning(f"metrics cannot be written to {self.folder} ({error.strerror}): /metrics stands still")
            self.failed = True

    async def keep_writing(self) -> None:
        while True:
            self.write()
            await asyncio.sleep(WRITE_EVERY_S)

    def total(self) -> Metrics:
        """Returns the sum over all processes of the server, without the gauges of those that have ended."""
        self.write()
        return total_of(self.folder)


def total_of(folder: Path) -> Metrics:
    """Adds up a folder. Files of running processes are read before that of the ended ones, which names whom it has taken in."""
    running = [found for path in sorted(folder.glob("[0-9]*.json")) if (found := read(path)) is not None]
    ended = read(folder / f"{ENDED}.json") or {"of": [], **Metrics().to_json()}
    total = Metrics.from_json(ended)
    for found in running:
        if not set(found["of"]) & set(ended["of"]):
            total.add(Metrics.from_json(found))
    return total


def retire(folder: Path, process: int) -> None:
    """Adds the counters of a process that has ended to those of all that have; only the server's parent calls it."""
    path = folder / f"{process}.json"
    found, ended = read(path), read(folder / f"{ENDED}.json") or {"of": [], **Metrics().to_json()}
    if found is None:
        return
    total = Metrics.from_json(ended)
    total.add(Metrics.from_json(found), gauges=False)
    with suppress(OSError):  # then its own file goes on to be counted
        write(folder / f"{ENDED}.json", {"of": [*ended["of"], process], **total.to_json()})
        path.unlink()


def read(path: Path) -> dict | None:
    """Returns the values of a file, or None if it is not there (any more)."""
    with suppress(OSError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def write(path: Path, values: dict) -> None:
    temporary = path.with_suffix(f".tmp-{os.getpid()}")
    temporary.write_text(json.dumps(values), encoding="utf-8")
    temporary.replace(path)
