"""Sandboxes in milliseconds: a Python that is loaded once, inside namespaces, and forks into new ones for every run."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import sage
from sage.sandbox import exchange
from sage.sandbox.contract import Command, Files, Limits, Result, SandboxError
from sage.sandbox.image import Image, ensure
from sage.sandbox.inside import frames

SOURCES = Path(sage.__file__).parent.parent
BOOT_S = 60.0  # that the first answer may take on a busy machine
WHY_NOT = (
    "the host does not let this user make namespaces ({reason}): on Ubuntu >= 24.04 allow bubblewrap or Python in AppArmor, in a "
    "container allow unshare, or use Docker"
)


class Zygote:
    """Backend for Python tasks, one run at a time; a zygote that fails is replaced at the next run.

    Example:
        >>> with Session(Zygote(), {"a.py": b"print(6 * 7)"}) as session:
        ...     session.exec("python", "a.py").out
        b'42\\n'
    """

    name = "zygote"

    def __init__(self, image: Image | None = None) -> None:
        self.image = image or ensure()
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        request = exchange.request(files, command, limits)
        channel = self.channel or self.boot()
        patience = limits.wall_s + exchange.GRACE_S
        result = None
        try:
            channel.settimeout(patience)
            channel.sendall(request)
            result = exchange.result(self.reader(channel, time.monotonic() + patience), files, limits)
        except OSError as error:
            result = exchange.broken(str(error))
        finally:  # whatever interrupted the exchange: between request and answer nothing else can be asked
            if result is None or result.ended_by == "broken":
                self.close()
        return result

    def boot(self) -> socket.socket:
        """Starts the zygote, waits until it is loaded, and returns the socket to it.

        Raises SandboxError if it does not start.
        """
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        words = [sys.executable, "-P", "-m", "sage.sandbox.inside.launcher", str(self.image.root), str(number)]
        self.process = subprocess.Popen(
            words,
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={"PYTHONPATH": str(SOURCES)},
        )
        theirs.close()
        self.channel = ours
        try:
            frames.unpack(self.reader(ours, time.monotonic() + BOOT_S), 0)
        except frames.FrameError as error:
            reason = self.last_words() or str(error)
            self.close()
            raise SandboxError(WHY_NOT.format(reason=reason)) from error
        return ours

    def reader(self, channel: socket.socket, deadline: float) -> frames.Read:
        return frames.exact_reader(frames.until_deadline(deadline, channel.fileno(), channel.recv))

    def last_words(self) -> str:
        """Returns the last line of the launcher's error output; '' if it does not end within a second."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, text = self.process.communicate(timeout=1)
            return text.decode(errors="replace").strip().rpartition("\n")[2]
        return ""

    def interrupt(self) -> None:
        """Kills the zygote, so that the run in another thread ends as 'broken'."""
        if (process := self.process) is not None:
            process.kill()

    def close(self) -> None:
        """Ends the zygote and everything in it."""
        if self.channel is not None:
            self.channel.close()
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.channel = self.process = None
