"""The supervisor of one command: starts it, watches over it, and reports how it ended."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from . import frames
from .command import become_command
from .request import MOST_FILES, Request
from .streams import KeptOutput, drain, read_some
from .usage import memory_mb, num_files
from .work_folder import changes, fill, is_file

LOOK_EVERY = 0.02  # seconds between two looks at what is used


class Ended(NamedTuple):
    status: int  # as of waitpid
    usage: resource.struct_rusage
    wall_s: float
    reason: str  # "", or the limit that it was killed for
    streams: tuple[KeptOutput, KeptOutput]


def supervise(request: Request, run: Callable[[Request], NoReturn], caller: int) -> bytes:
    """Runs the command on the files and returns the frame with its exit code, output and changed files."""
    written = fill(request.files)
    ended = watch(request, run, caller)
    changed, skipped = changes(written, request.limits)
    code, ended_by = exit_of(ended, request.limits)
    header = {
        "code": code,
        "ended_by": ended_by,
        "truncated": any(stream.truncated for stream in ended.streams),
        "wall_s": ended.wall_s,
        "cpu_s": ended.usage.ru_utime + ended.usage.ru_stime,
        "peak_mb": ended.usage.ru_maxrss / 1024,
        "paths": list(changed),
        "deleted": [path for path in request.files if not is_file(path)],
        "skipped": skipped[:100],
    }
    return frames.pack(header, [*(stream.content() for stream in ended.streams), *changed.values()])


def watch(request: Request, run: Callable[[Request], NoReturn], caller: int) -> Ended:
    """Starts the command, keeps its output, and kills all that it started when it ends or exceeds a limit."""
    out, err, stdin = os.pipe(), os.pipe(), os.memfd_create("stdin")
    os.write(stdin, request.stdin)
    os.lseek(stdin, 0, os.SEEK_SET)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        become_command(request, run, stdin, out[1], err[1])
    for descriptor in (stdin, out[1], err[1]):
        os.close(descriptor)
    most = int(request.limits["output_bytes"])
    streams = {out[0]: KeptOutput(most), err[0]: KeptOutput(most)}
    reason = wait_for(child, streams, caller, request.limits, start)
    kill_all()
    _, status, usage = os.wait4(child, 0)
    wall = time.monotonic() - start
    end_all()
    for descriptor, kept in streams.items():
        drain(descriptor, kept)
    return Ended(status, usage, wall, reason, (streams[out[0]], streams[err[0]]))


def wait_for(child: int, streams: dict[int, KeptOutput], caller: int, limits: dict[str, float], start: float) -> str:
    """Waits until the command ends or exceeds a limit; returns the name of that limit, or ''.

    Kills everything and exits if the caller is gone.
    """
    ended = os.pidfd_open(child)
    events = select.poll()
    for descriptor in (*streams, ended):
        events.register(descriptor, select.POLLIN)
        os.set_blocking(descriptor, False)
    events.register(caller, select.POLLHUP | select.POLLRDHUP)
    deadline, look = start + limits["wall_s"], start + LOOK_EVERY
    try:
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "wall_s"
            if now >= look:
                look = now + LOOK_EVERY
                if memory_mb(limits["memory_mb"]) > limits["memory_mb"]:
                    return "memory"
                if num_files() > MOST_FILES:
                    return "files"
            for descriptor, _ in events.poll(max(0.0, min(deadline, look) - now) * 1000 + 1):
                if descriptor == ended:
                    return ""
                if descriptor == caller:
                    kill_all()
                    os._exit(0)  # nobody waits for the answer
                if not read_some(descriptor, streams[descriptor]):
                    events.unregister(descriptor)
    finally:
        os.close(ended)


def kill_all() -> None:
    """Kills every process that this one may kill, except itself: all of its namespace, or all of its user."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def end_all() -> None:
    """Kills and reaps all children, also those born meanwhile, until none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            kill_all()
            os.waitpid(-1, 0)


def exit_of(ended: Ended, limits: dict[str, float]) -> tuple[int | None, str]:
    if ended.reason:
        return None, ended.reason
    if os.WIFEXITED(ended.status):
        return os.WEXITSTATUS(ended.status), "exit"
    used = ended.usage.ru_utime + ended.usage.ru_stime
    killed_by = os.WTERMSIG(ended.status)
    out_of_time = killed_by == signal.SIGXCPU or (killed_by == signal.SIGKILL and used > limits["cpu_s"])
    return None, "cpu_s" if out_of_time else "signal"
