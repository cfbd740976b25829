from __future__ import annotations

from collections.abc import Iterator

import pytest

from sage.sandbox import Backend
from sage.sandbox.image import Image
from sage.sim.environment.growing import compiled
from sage.sim.environment.tables import Table
from tests.sage.sandbox.backends import opened
from tests.sage.sim.environment.small_task import TASK


@pytest.fixture(scope="session")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)


@pytest.fixture(scope="session")
def table(zygote: Backend) -> Table:
    found = compiled(zygote, TASK)
    assert found is not None
    return found
