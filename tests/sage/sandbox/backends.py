"""The backends that this machine can run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from sage.sandbox import Backend, Command, Limits, SandboxError
from sage.sandbox.bubblewrap import Bubblewrap
from sage.sandbox.docker_runner import Docker
from sage.sandbox.image import Image
from sage.sandbox.zygote import Zygote
from tests import needs

KINDS = ("zygote", "bubblewrap", "docker")


def opened(kind: str, image: Image, request: pytest.FixtureRequest | None = None) -> Iterator[Backend]:
    """A backend that works, or a skip with the reason."""
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip(needs.BUBBLEWRAP)
    backend: Backend
    if kind == "docker":
        assert request is not None
        cache = request.getfixturevalue("tmp_path_factory").mktemp("docker")
        backend = Docker(image, engine=request.getfixturevalue("docker_engine"), cache=cache)
    else:
        backend = Zygote(image) if kind == "zygote" else Bubblewrap(image)
    try:
        backend.run({}, Command(argv=("true",)), Limits())
    except SandboxError:
        pytest.skip(needs.DOCKER if kind == "docker" else needs.USER_NAMESPACES)
    yield backend
    backend.close()
