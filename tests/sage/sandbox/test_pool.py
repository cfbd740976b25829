"""Sandboxes that pieces of work share."""

from __future__ import annotations

from threading import Barrier, Lock

import pytest

from sage.sandbox import choose
from sage.sandbox.pool import BackendPool, open_backends


class Closing:
    """A backend that only counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_every_sandbox_works_for_one_at_a_time_and_results_are_in_order():
    backends = [Closing(), Closing()]
    pool = BackendPool(backends)
    both, lock, busy, used = Barrier(2, timeout=30), Lock(), set(), []

    def work(item: int) -> int:
        with pool.borrowed() as backend:
            with lock:
                assert backend not in busy
                busy.add(backend)
                used.append(backend)
            both.wait()  # two work at the same time
            with lock:
                busy.remove(backend)
        return item * 10

    assert list(pool.map(work, range(6))) == [0, 10, 20, 30, 40, 50]
    assert set(used) == set(backends)


def test_a_sandbox_is_given_back_after_a_failure():
    pool = BackendPool([Closing()])

    def fail(item: int) -> None:
        with pool.borrowed():
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        list(pool.map(fail, range(3)))
    with pool.borrowed() as backend:  # would wait for ever if it were not there
        assert backend.closed == 0


def test_all_sandboxes_are_closed_even_if_one_cannot_be_opened(monkeypatch):
    opened = []

    def open_backend(name: str) -> Closing:
        if len(opened) == 2:
            raise choose.SandboxError(f"no more of {name}")
        opened.append(Closing())
        return opened[-1]

    monkeypatch.setattr(choose, "open_backend", open_backend)
    with open_backends(2, "zygote") as backends:
        assert backends == opened
    assert [backend.closed for backend in opened] == [1, 1]
    opened.pop()
    with pytest.raises(choose.SandboxError, match="no more of auto"), open_backends(3):
        raise AssertionError
    assert [backend.closed for backend in opened] == [1, 1]
    with pytest.raises(ValueError, match="--workers 0 must be at least 1"), open_backends(0):
        raise AssertionError
