"""Reloading of changed files: models.yaml is read again as a whole or not at all; changed checkpoints and gate records
always count."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sage.orchestrator.installed_policies import InstalledPolicies
from sage.orchestrator.model_router import Router
from sage.proof.gate_record import RECORD, record_path
from sage.serve.state import ServingState
from sage.settings import Settings, SettingsError
from sage.upstream.metrics import Metrics

log = logging.getLogger(__name__)
Signature = tuple[tuple[int, ...] | bytes | None, ...]


def watched_files(models: Path, db: Path, environment: Mapping[str, str] | None) -> list[Path]:
    """Returns the files that decide how requests are served: models.yaml, the file of promotions beside the log, and
    the checkpoints of the settings with their gate records."""
    files = [models, InstalledPolicies(db).file]
    try:
        settings = Settings.read(environment)
    except SettingsError:
        return files
    checkpoints = [path for path in (settings.checkpoint, settings.cascade) if path is not None]
    return [*files, *checkpoints, *(record_path(path) for path in checkpoints)]


def signature(paths: Iterable[Path]) -> Signature:
    """Returns a value that differs whenever a file was written, replaced or removed, or can be read again."""
    return tuple(signature_of(path) for path in paths)


def signature_of(path: Path) -> tuple[int, ...] | bytes | None:
    try:
        if path.name.endswith(RECORD):  # small; and a record that could not be read is a revocation
            return path.read_bytes()
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class Reloader:
    """A watcher of files. `read` makes a new state from them, given the current router; `replace` puts it in place of
    the old one."""

    def __init__(
        self,
        paths: list[Path],
        current: Callable[[], ServingState],
        read: Callable[[Router], ServingState],
        replace: Callable[[ServingState], None],
        *,
        seen: Signature,
        environment: Mapping[str, str] | None,
        metrics: Metrics,
    ) -> None:
        self.paths = paths
        self.current = current
        self.read = read
        self.replace = replace
        self.seen = seen  # from before the files were read, so that no change is missed
        self.environment = environment
        self.metrics = metrics
        self.retiring: set[asyncio.Task[None]] = set()

    async def watch(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """Checks the files once and reloads what has changed. A policy that is no longer promoted stops serving even if
        models.yaml cannot be read."""
        found, old = signature(self.paths), self.current()
        if found == self.seen:
            return
        table_changed, self.seen = found[0] != self.seen[0], found
        before = old.logbook.router.in_charge
        if not (table_changed and await self.reload(old)):
            await asyncio.to_thread(old.logbook.router.look_again, self.environment)
        if not table_changed:
            self.metrics.count("sage_reloads_total", result="done")
        for was, told in zip(before, self.current().logbook.router.in_charge, strict=True):
            if told != was:
                log.warning(f"from now on: {told or 'no learned policy serves'}")

    async def reload(self, old: ServingState) -> bool:
        """Reads the files and serves from them; returns False, and keeps the old state, if they cannot be read."""
        try:
            new = await asyncio.to_thread(self.read, old.logbook.router)
        except (ValueError, OSError) as error:
            self.metrics.count("sage_reloads_total", result="refused")
            log.warning(f"what has changed cannot serve, and the old files do: {error}")
            return False
        same = [name for name, target in old.targets.items() if new.targets.get(name) == target]
        new.forwarder.breakers.take_over(old.forwarder.breakers, same)
        self.replace(new)
        self.metrics.count("sage_reloads_total", result="done")
        log.warning(f"{self.paths[0]} was read again, and serves from now on")
        task = asyncio.ensure_future(self.retire(old))
        self.retiring.add(task)
        task.add_done_callback(self.retiring.discard)
        return True

    async def retire(self, old: ServingState) -> None:
        """Closes a state once the last request that it serves is answered."""
        while old.in_flight:
            await asyncio.sleep(0.1)
        await old.close()

    async def close(self) -> None:
        while self.retiring:
            await asyncio.wait(self.retiring)
