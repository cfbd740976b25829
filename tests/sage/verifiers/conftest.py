"""The image of the tests of sandboxes."""

from tests.sage.sim.conftest import image

__all__ = ["image"]
