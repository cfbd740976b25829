"""One sandbox for all tests of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sage.sandbox import Backend
from sage.sandbox.image import Image
from tests.sage.sandbox.backends import opened


@pytest.fixture(scope="package")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)
