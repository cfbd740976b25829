"""Sandboxes by bubblewrap: every run gets a new one, with a new process tree.

Slower than the zygote, for any language.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import threading
from collections.abc import Callable

from sage.sandbox import exchange
from sage.sandbox.contract import Command, Files, Limits, Result, SandboxError
from sage.sandbox.image import Image, ensure
from sage.sandbox.inside import frames
from sage.sandbox.inside.request import INNER_ID, NOBODY

SHARED_MEMORY_MB = 16
LOOK_MS = 100


class Bubblewrap:
    """Backend that starts a new bubblewrap sandbox for every run."""

    name = "bubblewrap"

    def __init__(self, image: Image | None = None) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxError("bubblewrap is not installed: install the package bubblewrap, or use the zygote")
        self.program = program
        self.image = image or ensure()
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        request = exchange.request(files, command, limits)
        nobody = NOBODY if os.geteuid() == 0 else None
        process = self.process = subprocess.Popen(
            self.words(limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else [],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(limits.wall_s + exchange.GRACE_S, process.kill)
        deadline.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()  # and stays open: the supervisor ends when it closes
            result = exchange.result(frames.exact_reader(reader(process, process.stdout.fileno())), files, limits)
        except OSError as error:
            result = exchange.broken(str(error))
        finally:
            deadline.cancel()
            process.kill()
            _, err = process.communicate()
        if result.ended_by == "broken" and b"bwrap:" in err:
            raise SandboxError(f"bubblewrap does not start ({err.decode(errors='replace').strip()})")
        return result

    def words(self, limits: Limits) -> list[str]:
        size = str(limits.disk_mb * 2**20)
        words = [self.program, "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        words += ["--unshare-user", "--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "sandbox"]
        words += ["--ro-bind", str(self.image.root), "/", "--proc", "/proc", "--dev", "/dev"]
        words += ["--size", size, "--tmpfs", "/work", "--size", size, "--tmpfs", "/tmp"]
        words += ["--size", str(SHARED_MEMORY_MB * 2**20), "--tmpfs", "/dev/shm"]
        words += ["--cap-drop", "ALL", "--chdir", "/work", "--setenv", "LC_ALL", "C.UTF-8"]
        words += ["--setenv", "PYTHONPATH", "/sage", "--setenv", "PYTHONSAFEPATH", "1"]
        return [*words, "--", "/usr/bin/python3", "-m", "inside", "once"]

    def interrupt(self) -> None:
        if (process := self.process) is not None:
            process.kill()

    def close(self) -> None:
        """Does nothing: no process is left between two runs."""


def reader(process: subprocess.Popen[bytes], number: int) -> Callable[[int], bytes]:
    """Returns a function that reads up to `size` bytes of what the inner side writes to the descriptor `number`.

    It raises FrameError once bubblewrap has ended, as the inner side can survive that while it starts and keep the
    pipe open.
    """
    waiting = select.poll()
    waiting.register(number, select.POLLIN)

    def read(size: int) -> bytes:
        while not waiting.poll(LOOK_MS):
            if process.poll() is not None:
                raise frames.FrameError("bubblewrap was ended")
        return os.read(number, size)

    return read
