"""Several sandboxes at a time: opened together, and lent to pieces of work, each to one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from queue import SimpleQueue
from typing import TypeVar

from sage.sandbox import choose
from sage.sandbox.contract import Backend

Item = TypeVar("Item")
Found = TypeVar("Found")


@contextmanager
def open_backends(workers: int, sandbox: str = "auto") -> Iterator[list[Backend]]:
    """Opens `workers` sandboxes of one kind, and closes them at the end; fewer than one is a `ValueError`."""
    if workers < 1:
        raise ValueError(f"--workers {workers} must be at least 1")
    with ExitStack() as stack:
        yield [stack.enter_context(closing(choose.open_backend(sandbox))) for _ in range(workers)]


class BackendPool:
    """Open sandboxes, of which each thread borrows a free one."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.size = len(backends)
        self._free: SimpleQueue[Backend] = SimpleQueue()
        for backend in backends:
            self._free.put(backend)

    @contextmanager
    def borrowed(self) -> Iterator[Backend]:
        """Waits for a free sandbox, and takes it back at the end."""
        backend = self._free.get()
        try:
            yield backend
        finally:
            self._free.put(backend)

    def map(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        """Calls `work` on as many threads as there are sandboxes; yields what it returns, in the order of the items."""
        with ThreadPoolExecutor(self.size) as threads:
            yield from threads.map(work, items)
