"""Pictures among observations: where they are, and which of their dimensions holds channels."""

from __future__ import annotations

from rl_training.core.spaces import Box, Dict, Space


def picture_keys(space: Space) -> list[str]:
    """Returns the keys of the pictures in a Dict; [""] for a space that is a picture itself, [] if there are none."""
    leaves = space.spaces if isinstance(space, Dict) else {"": space}
    return [key for key, leaf in leaves.items() if isinstance(leaf, Box) and leaf.is_image]


def channels_are_last(space: Box) -> bool:
    """Says if the last dimension of pictures holds channels, not the first: it does if it is not the larger one."""
    return space.shape[2] <= space.shape[0]


def sort_dimensions(space: Box) -> tuple[int, tuple[int, ...]]:
    """Returns the number of channels of pictures, and their height and width."""
    first, *_, last = shape = space.shape
    return (last, shape[:2]) if channels_are_last(space) else (first, shape[1:])
