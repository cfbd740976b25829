"""Code that a config names as text, 'package.module:name': imported, or passed as a Python object."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def find(path: str, known: Mapping[str, T], field: str) -> T:
    """Returns `known[path]` if there is one, otherwise the object imported from `path`, written 'package.module:name'.

    Raises a ValueError that names the config's `field` if there is no object of that name or its import fails.
    """
    if path in known:
        return known[path]
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"{field}={path!r} names no code: write it 'package.module:name'")
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{field}={path!r} {why_not_importable(field)}")
    try:
        return reduce(getattr, name.split("."), import_named(module))  # pyrefly: ignore[bad-return]  (the caller checks)
    except (ImportError, AttributeError) as error:
        if not is_importable(path):
            raise ValueError(f"{field}={path!r} {why_not_importable(field)}") from error
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            where = f"install it, or start in the folder of {error.name}.py (now {os.getcwd()})"
            raise ValueError(f"{field}={path!r} cannot be imported ({error}): {where}") from error
        raise ValueError(f"{field}={path!r} cannot be imported ({error}): write it 'package.module:name'") from error


def import_named(module: str) -> ModuleType:
    """Imports and returns a module, which may also be in the working directory; raises an ImportError if there is none.

    An installed command does not search the working directory. It is appended to `sys.path` if it holds the module and no
    other place does, so that nothing in it can stand in for an installed package.
    """
    package, here = module.partition(".")[0], os.getcwd()
    is_here = os.path.isfile(os.path.join(here, f"{package}.py")) or os.path.isdir(os.path.join(here, package))
    if package not in sys.modules and is_here and here not in sys.path and find_spec(package) is None:
        sys.path.append(here)
    return import_module(module)


def register(thing: T, known: MutableMapping[str, T]) -> str:
    """Stores an object in `known` and returns its key 'module:qualname', with '#2' if another object has that key."""
    name = getattr(thing, "__qualname__", None) or f"<{type(thing).__qualname__}>"
    path = f"{getattr(thing, '__module__', None) or 'unknown'}:{name}"
    names = (path if number == 1 else f"{path}#{number}" for number in range(1, len(known) + 2))
    path = next(name for name in names if known.get(name, thing) is thing)
    known[path] = thing
    return path


def is_importable(path: str) -> bool:
    """Says if other processes could import 'module:name': False for lambdas, local objects and the main script's."""
    module, _, name = path.partition(":")
    return module not in ("__main__", "__mp_main__", "unknown") and all(part.isidentifier() for part in name.split("."))


def leads_to(path: str, thing: object) -> bool:
    """Says if importing `path` would return exactly `thing`; checks loaded modules only and imports nothing."""
    module, _, name = path.partition(":")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return is_importable(path) and found is thing


def why_not_importable(field: str) -> str:
    """Returns the end of an error message about a config's `field`: why its object cannot be imported, and a remedy."""
    again = f"load(path, {field.rpartition('.')[2]}=...)"
    if field == "env.id":
        again = "Agent.resume(run_dir, env=...) (load(path, env=...) begins a new run)"
    elif field.endswith(".env.id"):
        again = "in a new run"
    return (
        "was handed over as an object that no other process can import (a lambda, something local, or of the script "
        f"itself): hand it over again, {again}, or define it in a module"
    )
