"""What does not fit into Ray's object store is tried again: others may free some of it."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

PATIENCE_S = 300.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

log = logging.getLogger(__name__)
T = TypeVar("T")


class StoreFullError(ValueError):
    """Ray's object store stayed full, and the run ends."""


def full_errors(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises of a full store: it has no room, nor has the disk to which it moves what it holds."""
    return ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError


def when_there_is_room(ray: Any, what: str, attempt: Callable[[], T]) -> T:
    """The result of an attempt that may find the store full, which is repeated for `PATIENCE_S`."""
    started, pause = time.monotonic(), FIRST_PAUSE_S
    for tries in itertools.count():
        try:
            return attempt()
        except full_errors(ray) as error:
            if time.monotonic() - started > PATIENCE_S:
                raise StoreFullError(
                    f"Ray's object store has had no room for {what} for {PATIENCE_S:.0f} s, and the disk that it falls back to "
                    "is full, too: free space on that disk, look with `ray memory` for what holds the store, or start the "
                    "cluster with a larger --object-store-memory; then resume the run from its last checkpoint"
                ) from error
        if tries == 0:
            log.warning(f"Ray's object store is full: no room for {what}; the run waits up to {PATIENCE_S:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    raise AssertionError("never reached")
