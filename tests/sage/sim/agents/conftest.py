"""One sandbox for all tests of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sage.sim.sandboxes import Backend
from sage.sim.sandboxes.image import Image
from tests.sage.sim.backends import opened


@pytest.fixture(scope="package")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)
