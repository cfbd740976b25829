"""Reasons for skipping a test: what it needs, and behind the colon the command or the place where it would run.

`make test` ends with a line for each reason (`tests/skip_summary.py`), so tests that need the same thing use the same words.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

BUBBLEWRAP = "needs bubblewrap: apt-get install bubblewrap"
DOCKER = "needs a Docker daemon: apt-get install docker.io, and start it or be root"
FCNTL = "needs locks of files: run the tests on Linux, macOS or Windows, with fcntl where there is one"
GPU = "needs a GPU: make test on a machine with CUDA"
LINUX = "needs Linux, whose programs the image is made of: make test on Linux"
PODMAN = "needs podman and root: apt-get install podman, as root"
SANDBOX = "needs a sandbox that holds: sage doctor --sandboxes says why none does"
TRITON = "needs Triton, whose interpreter runs kernels on a CPU: pip install triton"
USER_NAMESPACES = (
    "needs user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or allow unshare in the container"
)


def package(name: str) -> str:
    return f"needs the package {name}: make setup"


def import_package(name: str) -> ModuleType:
    """Returns the module, or skips the test."""
    return pytest.importorskip(name, reason=package(name.partition(".")[0]))


def require_package(name: str) -> None:
    """Skips the test if a package is not installed, without importing it."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(package(name))


def import_extra(name: str) -> ModuleType:
    """Returns the module that the extra of the same name installs, which `make setup` leaves out, or skips the test."""
    return pytest.importorskip(name, reason=f"needs the package {name}: pip install -e '.[{name}]'")
