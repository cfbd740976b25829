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


def why_none() -> str:
    """Why there can be no engine here; empty if there can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if answers("docker"):
        return ""
    if shutil.which("dockerd") is None:
        return "no Docker daemon runs, and dockerd is not installed"
    return "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "no Docker daemon runs, and only root can start one"


@contextmanager
def engine() -> Iterator[tuple[str, ...]]:
    """The words that begin a command of the engine."""
    if answers("docker"):
        yield ("docker",)
        return
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**30
    parent = MEMORY if in_memory else None
    with tempfile.TemporaryDirectory(prefix="sage-docker-", dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)  # short: the path of a socket has at most 107 bytes
        words = ["dockerd", "--iptables=false", "--bridge=none", "--host", f"unix://{folder}/socket"]
        words += [
            "--data-root",
            str(folder / "data"),
            "--exec-root",
            str(folder / "exec"),
            "--pidfile",
            str(folder / "pid"),
        ]
        with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as daemon:
            try:
                client = ("docker", "--host", f"unix://{folder}/socket")
                deadline = time.monotonic() + START_S
                while not answers(*client):
                    assert daemon.poll() is None, (folder / "log").read_text()[-2000:]
                    assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
                    time.sleep(0.1)
                yield client
            finally:
                daemon.terminate()
                daemon.wait(START_S)
