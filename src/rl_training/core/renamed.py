"""Old public names, which keep working for one minor version (docs/stability.md)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping


def find_renamed(module: dict[str, object], old: str, renamed: Mapping[str, str]) -> object:
    """Returns a module's object by its old name, with a FutureWarning on the first use; called from `__getattr__`.

    `module` is the module's `globals()`; `renamed` has the new name of each old one. Raises an AttributeError for others.
    """
    if old not in renamed:
        raise AttributeError(f"module {module['__name__']!r} has no attribute {old!r}")
    new = renamed[old]
    text = f"{module['__name__']}.{old} is now {new}: the old name goes with 0.3"
    warnings.warn(text, FutureWarning, stacklevel=3)
    return module.setdefault(old, module[new])  # found there from now on: told once
