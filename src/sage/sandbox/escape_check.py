"""Test of a backend: every escape is attempted, and the host checks that nothing of it came through."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from sage.sandbox.contract import Backend, Command, Limits, Result
from sage.sandbox.escapes import ATTEMPTS, MARK, EscapeAttempt

LIMITS = Limits(
    memory_mb=256, processes=32, cpu_s=2, wall_s=1.5, file_mb=8, disk_mb=16, open_files=128, output_bytes=20_000
)


@dataclass(frozen=True)
class HostTargets:
    """The targets on this host that escape attempts try to reach: a file, sockets and a process."""

    context: dict[str, object]
    victim: subprocess.Popen[bytes]
    listeners: tuple[socket.socket, ...]
    folder: Path

    def touched(self) -> str:
        """Returns a sentence about the target that was reached; '' if none was."""
        if self.victim.poll() is not None:
            return "a process of the host was killed"
        for listener in self.listeners:
            try:
                listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()
            except BlockingIOError:
                continue
            return "a socket of the host was reached"
        left = sorted(path.name for path in self.folder.iterdir())
        return "" if left == ["canary", "canary.sock"] else f"files were written on the host: {left}"


LASTING = {"processes", "amounts", "persistence"}  # groups of attempts whose effects could outlive their run


class EscapeFinding(NamedTuple):
    """The result of one escape attempt: `escape` is a sentence about what got out, '' if it was contained."""

    attempt: EscapeAttempt
    escape: str  # "" if it was contained
    result: Result


@contextmanager
def bait() -> Iterator[HostTargets]:
    """Yields a file, sockets and a process on the host that any program outside of a sandbox can reach."""
    secret = secrets.token_hex(16)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        path = folder / "canary"
        path.write_text(secret, encoding="utf-8")
        tcp = stack.enter_context(socket.socket())
        tcp.bind(("127.0.0.1", 0))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(tcp.getsockname())
        abstract, named = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        abstract.bind(f"\0{secret}")
        named.bind(f"{path}.sock")
        Path(f"{path}.sock").chmod(0o777)
        for listener in (tcp, abstract, named):
            listener.listen()
        for listener in (tcp, udp, abstract, named):
            listener.setblocking(False)
        sleeper = [sys.executable, "-c", "import time; time.sleep(3600)", secret]
        victim = stack.enter_context(subprocess.Popen(sleeper, env={"SECRET": secret}))
        stack.callback(victim.kill)
        context = {"port": tcp.getsockname()[1], "abstract": secret, "path": str(path), "secret": secret}
        context |= {"victim": victim.pid, "limits": asdict(LIMITS)}
        yield HostTargets(context, victim, (tcp, udp, abstract, named), folder)


def attempts(backend: Backend, chosen: Iterable[EscapeAttempt] = ATTEMPTS) -> Iterator[EscapeFinding]:
    """Yields a finding for every attempt, run one after the other in the backend.

    After attempts whose effects could outlive them, another run checks that nothing is left.
    """
    with bait() as host:
        for attempt in chosen:
            files = {"attempt.py": attempt.program}
            command = Command(argv=("python", "attempt.py"), stdin=json.dumps(host.context).encode())
            result = backend.run(files, command, LIMITS)
            escape = visible_escape(result, host) or (remains_of_runs(backend) if attempt.group in LASTING else "")
            yield EscapeFinding(attempt, escape or host.touched(), result)


def visible_escape(result: Result, host: HostTargets) -> str:
    """Returns a sentence about the escape that a run's result shows; '' if it shows none."""
    secret = str(host.context["secret"]).encode()
    if MARK in result.out:
        return result.out[result.out.index(MARK) :].decode(errors="replace").strip()
    if (
        secret in result.out
        or secret in result.err
        or any(secret in (content or b"") for content in result.changed.values())
    ):
        return "the secret came back"
    if b"SyntaxError" in result.err or b"NameError" in result.err:
        return f"the attempt itself is broken: {result.err.decode(errors='replace')}"
    if len(result.out) > 2 * LIMITS.output_bytes or result.wall_s > LIMITS.wall_s + 2:
        return f"{len(result.out)} bytes of output, {result.wall_s:.1f} s"
    return ""


def remains_of_runs(backend: Backend) -> str:
    """Returns a sentence about the rests of earlier runs that a new run finds; '' if there are none."""
    after = backend.run({"a": b"1"}, Command(argv=("python", "-c", "import os; print(sorted(os.listdir()))")), LIMITS)
    return "" if after.out == b"['a']\n" else f"the next run is not as it should be: {after}"
