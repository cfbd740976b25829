"""Repeated attempts to put data into Ray's object store while it is full."""

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
    """Error for an object store of Ray that stayed full for `PATIENCE_S` seconds; it ends the run."""


def full_errors(ray: Any) -> tuple[type[Exception], ...]:
    """Returns the exception classes that Ray raises if its object store, or the disk it spills to, is full."""
    return ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError


def when_there_is_room(ray: Any, what: str, attempt: Callable[[], T]) -> T:
    """Calls `attempt` and returns its result; calls it again while Ray's object store is full.

    Raises StoreFullError after `PATIENCE_S` seconds. `what` names in messages the data that need room.
    """
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
