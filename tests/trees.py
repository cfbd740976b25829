"""Source files as they are parsed, for the rules that the architecture tests check."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def parse_all(sources: Mapping[str, str]) -> dict[str, ast.Module]:
    """Parses every file, a second time where CPython 3.11 loses count of its own recursion.

    In processes with threads it sometimes raises a SystemError for right code (python/cpython issue 106905).
    """
    trees = {}
    for path, text in sources.items():
        try:
            trees[path] = ast.parse(text)
        except SystemError:
            trees[path] = ast.parse(text)
    return trees
