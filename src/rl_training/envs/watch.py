"""A watch for calls into environments that do not return; interrupts them where Python allows that.

One thread looks at the clock for all environments of this process. When a call has taken too long, it sends the main
thread a signal of its own, whose handler raises: this ends whatever waits (`sleep`, sockets, locks) or computes in
Python. Code that never returns to Python, and calls made in another thread, cannot be interrupted; of these the
sentence is printed.
"""

from __future__ import annotations

import itertools
import logging
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from weakref import ref

from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.failure import EnvFailedError, describe_env

TIMEOUT_S = 300.0  # unless something else is said
INTERVAL = 1.0  # seconds between looks, at most
GRACE = 2.0  # seconds in which an interrupted call must end before the sentence is printed
DEBUGGERS = ("bdb", "pdb")  # somebody who looks at a stopped environment takes the time they need
SIGNAL = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else None  # hardly used by anybody else
log = logging.getLogger(__name__)


class Watch:
    """A context manager that raises an EnvFailedError if its block takes more than `timeout_s` seconds (None: never).

    A block outside the main thread, or in code that never returns to Python, cannot be interrupted; a warning is logged
    instead.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.inside, self.calls, self.thread = False, 0, 0
        self.seen, self.waited, self.expired = 0, 0.0, False
        if timeout_s is not None:
            WATCHES[key := id(self)] = ref(self, lambda _: WATCHES.pop(key, None))
            start_looking()

    def __enter__(self) -> None:
        self.calls += 1
        self.thread = threading.get_ident()
        self.inside = True

    def __exit__(self, *error: object) -> None:
        self.inside = False

    def look(self, passed: float) -> None:
        """Adds `passed` seconds to the time of the block in progress and interrupts it at the limit.

        Logs a warning if it still runs 2 s later.
        """
        same = self.inside and self.calls == self.seen
        before, self.waited, self.seen = self.waited, self.waited + passed if same else 0.0, self.calls
        assert self.timeout_s is not None
        if before < self.timeout_s <= self.waited:
            self.expired = True
            in_main = self.thread == threading.main_thread().ident
            if SIGNAL is not None and in_main and signal.getsignal(SIGNAL) is interrupt:
                signal.pthread_kill(self.thread, SIGNAL)
        if before < self.timeout_s + GRACE <= self.waited:
            frame = sys._current_frames().get(self.thread)
            log.warning(f"{self.sentence(frame)}; it cannot be interrupted from here")

    def sentence(self, frame: FrameType | None) -> str:
        frames = [frame for frame, _ in traceback.walk_stack(frame)] if frame is not None else []
        logs = (f.f_locals.get("self") for f in frames)
        log = next((log for log in logs if isinstance(log, EpisodeLog)), None)
        who = "an environment" if log is None else describe_env(log.index, log.seed, next(reversed(log.actions), None))
        where = f" (it is at {frames[0].f_code.co_filename}:{frames[0].f_lineno})" if frames else ""
        return (
            f"{who} has not come back for {self.timeout_s:g} s{where}: correct the environment, or raise env.timeout_s "
            "(null waits for ever)"
        )


WATCHES: dict[int, ref[Watch]] = {}  # no lock: reading all values at once is one operation of the interpreter
LOOKERS: list[threading.Thread] = []  # the last one looks


def living_watches() -> list[Watch]:
    return [watch for reference in list(WATCHES.values()) if (watch := reference()) is not None]


def start_looking() -> None:
    """Starts the thread that adds up the time of all `Watch` objects, unless it runs.

    In the main thread, also installs the handler of the signal that interrupts a block, unless one is set.
    """
    in_main = threading.current_thread() is threading.main_thread()  # only there may handlers be installed
    if SIGNAL is not None and in_main and signal.getsignal(SIGNAL) is signal.SIG_DFL:
        signal.signal(SIGNAL, interrupt)
    if not LOOKERS or not LOOKERS[-1].is_alive():  # a forked process has none
        LOOKERS[:] = [threading.Thread(target=look_at_all, name="environment watch", daemon=True)]
        LOOKERS[-1].start()


def look_at_all() -> None:
    """Runs in the watching thread: adds the passed time to every `Watch` until none is left.

    Also stops when a newer thread has taken over.
    """
    for _ in itertools.count():
        timeouts = [watch.timeout_s for watch in living_watches() if watch.timeout_s is not None]
        if not timeouts or threading.current_thread() not in LOOKERS:
            LOOKERS[:] = [thread for thread in LOOKERS if thread is not threading.current_thread()]
            return
        interval = min(INTERVAL, min(timeouts) / 8)
        time.sleep(interval)
        for watch in living_watches():
            watch.look(interval)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handles the signal of a `Watch` in the main thread: raises an EnvFailedError if its block took too long.

    Does nothing while a debugger is active.
    """
    with_debugger = any(f.f_globals.get("__name__") in DEBUGGERS for f, _ in traceback.walk_stack(frame))
    for watch in living_watches():
        expired, watch.expired = watch.expired, False
        if expired and watch.inside and not with_debugger:
            raise EnvFailedError(watch.sentence(frame))
