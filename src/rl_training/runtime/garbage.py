"""The garbage collector, where it would only cost time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Stops the garbage collector, which would look through all that a compiler holds again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():  # all that is new counts as old, so that it is not looked through at once
                gc.freeze()
                gc.unfreeze()
            gc.enable()
