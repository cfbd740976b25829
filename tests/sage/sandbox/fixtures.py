"""One image for all tests of sandboxes: built once and kept, below the repository's `build`, until its recipe changes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sage.sandbox import Backend
from sage.sandbox import image as images
from tests import needs
from tests.sage.sandbox import docker_daemon
from tests.sage.sandbox.backends import opened

CACHE = Path(__file__).parents[3] / "build" / "sandbox_tests"


@pytest.fixture(scope="session")
def image() -> images.Image:
    if not sys.platform.startswith("linux") or shutil.which("ldd") is None:
        pytest.skip(needs.LINUX)
    found = images.ensure(CACHE)
    for folder in (CACHE / "images").iterdir():
        if folder.is_dir() and folder.name != found.sha256:
            shutil.rmtree(folder, ignore_errors=True)  # of an earlier recipe
    return found


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[tuple[str, ...]]:
    if not docker_daemon.is_possible():
        pytest.skip(needs.DOCKER)
    with docker_daemon.engine() as words:
        yield words


@pytest.fixture(scope="module")
def zygote(image: images.Image) -> Iterator[Backend]:
    """One sandbox for the tests of a module."""
    yield from opened("zygote", image)
