"""A lock belongs to one opening of a file; others are refused or wait, and it goes with the file."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_base import file_lock
from tests import needs

fcntl = pytest.importorskip("fcntl", reason=needs.FCNTL)


@pytest.fixture
def openings(tmp_path: Path) -> Iterator[list[int]]:
    opened = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    yield opened
    os.close(opened[0])


def test_who_does_not_wait_is_refused_and_who_waits_gets_it(openings: list[int]) -> None:
    first, second = openings
    file_lock.lock(first, wait=True)
    with pytest.raises(BlockingIOError):
        file_lock.lock(second, wait=False)
    got = threading.Event()
    waiting = threading.Thread(target=lambda: (file_lock.lock(second, wait=True), got.set()))
    waiting.start()
    assert not got.wait(0.05)
    file_lock.unlock(first)
    assert got.wait(60)
    waiting.join()
    os.close(second)
    file_lock.lock(first, wait=False)


class Kernel:
    """Windows' two calls, by `flock`: what they are given is read as Windows reads it."""

    def __init__(self, name: str, use_last_error: bool) -> None:
        assert (name, use_last_error) == ("kernel32", True)

    def LockFileEx(self, handle, flags, reserved, low, high, place) -> int:  # noqa: N802
        assert (reserved.value, low.value, high.value) == (0, 1, 0)
        assert flags.value in (2, 3)
        place = place._obj
        assert (place.offset, place.offset_high, place.event, ctypes.sizeof(place)) == (0, 1, None, 32)
        try:
            fcntl.flock(handle.value - 1000, fcntl.LOCK_EX | (fcntl.LOCK_NB if flags.value & 1 else 0))
        except BlockingIOError:
            return 0
        return 1

    def UnlockFileEx(self, handle, reserved, low, high, place) -> int:  # noqa: N802
        assert (reserved.value, low.value, high.value, place._obj.offset_high) == (0, 1, 0, 1)
        fcntl.flock(handle.value - 1000, fcntl.LOCK_UN)
        return 1


def test_what_windows_is_asked_for(openings: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No Windows is at hand: this shows that the arguments are in order, not that the system does its part."""
    msvcrt = types.SimpleNamespace(get_osfhandle=lambda descriptor: descriptor + 1000)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(ctypes, "WinDLL", Kernel, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 33, raising=False)
    spec = importlib.util.spec_from_file_location("lock_of_windows", file_lock.__file__)
    assert spec is not None
    assert spec.loader is not None
    windows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(windows)
    first, second = openings
    windows.lock(first, wait=True)
    with pytest.raises(BlockingIOError):
        windows.lock(second, wait=False)
    windows.unlock(first)
    windows.lock(second, wait=False)
    os.close(second)
