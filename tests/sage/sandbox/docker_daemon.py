"""An engine for tests: the daemon that runs, or one of our own where the machine allows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 30.0
MEMORY = Path("/dev/shm")  # some disks take seconds to delete what a daemon wrote


def answers(*engine: str) -> bool:
    return not subprocess.run([*engine, "info"], capture_output=True, check=False, timeout=START_S).returncode


def is_possible() -> bool:
    """Returns whether a daemon runs here or can be started, for which one must be root."""
    if shutil.which("docker") is None:
        return False
    can_start = shutil.which("dockerd") is not None and hasattr(os, "geteuid") and os.geteuid() == 0
    return can_start or answers("docker")


@contextmanager
def folder() -> Iterator[Path]:
    """For all that an engine keeps. Its path is short: that of a socket has at most 107 bytes."""
    parent = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**30 else None
    with tempfile.TemporaryDirectory(prefix="sage-docker-", dir=parent, ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def engine() -> Iterator[tuple[str, ...]]:
    """The words that begin a command of the engine."""
    if answers("docker"):
        yield ("docker",)
        return
    with folder() as home:
        words = ["dockerd", "--iptables=false", "--bridge=none", "--host", f"unix://{home}/socket"]
        words += [
            "--data-root",
            str(home / "data"),
            "--exec-root",
            str(home / "exec"),
            "--pidfile",
            str(home / "pid"),
        ]
        with (home / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as daemon:
            try:
                client = ("docker", "--host", f"unix://{home}/socket")
                deadline = time.monotonic() + START_S
                while not answers(*client):
                    assert daemon.poll() is None, (home / "log").read_text()[-2000:]
                    assert time.monotonic() < deadline, (home / "log").read_text()[-2000:]
                    time.sleep(0.1)
                yield client
            finally:
                daemon.terminate()
                daemon.wait(START_S)
