"""One at a time over all openings of a file, with an end to the wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from rl_base import file_lock
from sage.process_lock import ProcessLock
from tests import needs

pytestmark = pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)


def opened(folder: Path) -> ProcessLock:
    turn = ProcessLock(folder / "lock")
    turn.open()
    return turn


def test_turns_do_not_overlap(tmp_path: Path) -> None:
    inside, most = [], []

    def work() -> None:
        turn = opened(tmp_path)
        for _ in range(50):
            with turn.taken(60):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()
        turn.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (200, 1)


def test_who_loses_patience_leaves_nothing_locked(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    with one.taken(0):
        for sentence in ("has held lock for 0.01 s", "still holds lock"):
            with pytest.raises(TimeoutError, match=sentence), two.taken(0.01):
                raise AssertionError("both have it")
    assert two._waiting is not None
    two._waiting.join()
    for turn in (one, two, one):
        with turn.taken(0):
            pass


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    with pytest.raises(KeyError), one.taken(0):
        raise KeyError
    with two.taken(0):
        pass
