"""The step from supervisor to command: everything that the command must not have is given up first."""

from __future__ import annotations

import contextlib
import os
import resource
import traceback
from collections.abc import Callable
from typing import NoReturn

from . import kernel
from .request import ENVIRONMENT, Request


def become_command(request: Request, run: Callable[[Request], NoReturn], *streams: int) -> NoReturn:
    """Gives up everything that the supervisor has and the command must not have, then runs the command; never returns.

    `streams` are the descriptors that become its standard input, output and error.
    """
    try:
        os.setsid()
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
        os.closerange(3, 2**20)
        limit(request.limits)
        kernel.show_to_others()
        kernel.drop_privileges()
        kernel.filter_calls(request.filter)
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(2, b"the sandbox failed:\n" + traceback.format_exc().encode())
        os._exit(125)
    run(request)


def limit(limits: dict[str, float]) -> None:
    megabyte = 2**20
    values = {
        resource.RLIMIT_AS: int(limits["memory_mb"]) * megabyte,
        resource.RLIMIT_CPU: int(limits["cpu_s"]),
        resource.RLIMIT_FSIZE: int(limits["file_mb"]) * megabyte,
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_NPROC: int(limits["processes"]),
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        grace = 1 if kind == resource.RLIMIT_CPU and value != hard else 0  # SIGXCPU tells why, and SIGKILL follows
        resource.setrlimit(kind, (value, value + grace))


def execute(request: Request) -> NoReturn:
    """Replaces this process by the command's program; exits with 127 if that cannot be started."""
    env = ENVIRONMENT | request.env
    try:
        os.execvpe(request.argv[0], request.argv, env)
    except OSError as error:
        os.write(2, f"{request.argv[0]}: {error.strerror}\n".encode())
        os._exit(127)
