"""Reads models.yaml and checkpoints again when they change: all of it at once, or none of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sage.orchestrator.file_values import ModelsFileError
from sage.rl.gate_record import record_path
from sage.serve.metrics import Metrics
from sage.serve.state import State
from sage.settings import Settings, SettingsError

log = logging.getLogger(__name__)
Signature = tuple[tuple[int, int, int] | None, ...]


def watched(models: Path, environment: Mapping[str, str] | None) -> list[Path]:
    """The files that decide how requests are served; what the gate says of a checkpoint stands beside it."""
    try:
        settings = Settings.read(environment)
    except SettingsError:
        return [models]
    checkpoints = [path for path in (settings.checkpoint, settings.cascade) if path is not None]
    return [models, *checkpoints, *(record_path(path) for path in checkpoints)]


def signature(paths: Iterable[Path]) -> Signature:
    """Another one for every file that was written or replaced."""
    return tuple(signature_of(path) for path in paths)


def signature_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def check_successor(old: State, new: State) -> None:
    """A checkpoint that cannot serve does not take the place of one that does."""
    problem = new.logbook.router.problem
    if problem and not old.logbook.router.problem:
        raise ModelsFileError(problem)


class Reloader:
    """`read` makes a new state from the files, `replace` puts it in place of the old one."""

    def __init__(
        self,
        paths: list[Path],
        current: Callable[[], State],
        read: Callable[[], State],
        replace: Callable[[State], None],
        metrics: Metrics,
    ) -> None:
        self.paths = paths
        self.current = current
        self.read = read
        self.replace = replace
        self.metrics = metrics
        self.seen = signature(paths)
        self.retiring: set[asyncio.Task[None]] = set()

    async def watch(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            found = signature(self.paths)
            if found != self.seen:
                self.seen = found
                await self.reload()

    async def reload(self) -> None:
        old = self.current()
        try:
            new = await asyncio.to_thread(self.read)
        except (ValueError, OSError) as error:
            return self.refuse(error)
        try:
            check_successor(old, new)
        except ModelsFileError as error:
            await new.close()
            return self.refuse(error)
        for name, breaker in old.breakers.items():
            if new.targets.get(name) == old.targets[name]:
                new.forwarder.breakers[name] = breaker
        self.replace(new)
        self.metrics.count("sage_reloads_total", result="done")
        log.warning(f"{self.paths[0]} and what it names were read again, and serve from now on")
        task = asyncio.ensure_future(self.retire(old))
        self.retiring.add(task)
        task.add_done_callback(self.retiring.discard)
        return None

    def refuse(self, error: Exception) -> None:
        self.metrics.count("sage_reloads_total", result="refused")
        log.warning(f"what has changed cannot serve, and the old files do: {error}")

    async def retire(self, old: State) -> None:
        """Closes a state once the last request that it serves is answered."""
        while old.in_flight:
            await asyncio.sleep(0.1)
        await old.close()

    async def close(self) -> None:
        while self.retiring:
            await asyncio.wait(self.retiring)
