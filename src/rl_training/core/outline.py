"""Short descriptions of spaces, without bounds, and the differences between two environments' spaces."""

from __future__ import annotations

from collections.abc import Iterator

from rl_training.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec


def outline(space: Space) -> str:
    match space:
        case Box():
            return f"Box{space.shape} {space.dtype}"
        case Discrete():
            return f"Discrete({space.num})" + (f" from {space.start}" if space.start else "")
        case MultiDiscrete():
            return f"MultiDiscrete{space.nums}"
        case MultiBinary():
            return f"MultiBinary({space.num})"
        case Dict():
            return f"Dict({', '.join(f'{key}: {outline(space.spaces[key])}' for key in sorted(space.spaces))})"


def differing(theirs: Spec, ours: Spec) -> Iterator[tuple[str, str, str]]:
    """Yields ("observations" or "actions", `theirs` as text, `ours` as text) where they differ; bounds do not count."""
    sides = (("observations", theirs.obs, ours.obs), ("actions", theirs.action, ours.action))
    yield from ((what, outline(a), outline(b)) for what, a, b in sides if outline(a) != outline(b))
