"""State trees copied in memory, so that what goes on from the copy changes nothing of the original."""

from __future__ import annotations

import copy
from typing import TypeVar, cast

from torch import Tensor

from rl_training.core import owned
from rl_training.experience import RowLog

NodeT = TypeVar("NodeT")


def copy_state(node: NodeT) -> NodeT:
    """Returns a tree of the same numbers in other memory; rows that are in files are read."""
    return cast("NodeT", copied(node))


def copied(node: object) -> object:
    if isinstance(node, Tensor):
        return owned(node.detach())
    if isinstance(node, RowLog):
        return node.in_memory()
    if isinstance(node, dict):
        return {key: copied(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [copied(value) for value in node]
    return copy.deepcopy(node)
