"""One sandbox for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sage.sandbox import Backend
from sage.sandbox.image import Image
from tests.sage.sandbox.backends import opened


@pytest.fixture(scope="module")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)
