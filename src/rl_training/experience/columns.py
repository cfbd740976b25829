"""What a replay holds of steps: tensors on a device, written as NumPy views on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from torch import Tensor

from rl_training.core import Tree, tree_map
from rl_training.experience.sum_tree import Levels

DRAWABLE = 4  # a bit of `flags`, besides those of `functional.n_step`
TreeT = TypeVar("TreeT")


class Columns(NamedTuple):
    """What is stored; row = slot * num_envs + environment."""

    obs: Tree
    action: Tensor
    reward: Tensor
    flags: Tensor
    age: Tensor  # steps since the episode began; empty unless frames are stacked or sequences drawn
    declared: dict[str, Tensor]  # what the algorithm needs besides
    written: Tensor  # slots written so far, per environment: the next is written % slots
    priority: Levels  # empty unless prioritised
    highest: Tensor  # priority seen so far, which new rows get


def as_arrays(tree: TreeT) -> TreeT:
    """NumPy views of what is on the CPU, where they cost a fraction of a tensor's dispatch; the rest as it is."""
    return tree_map(lambda x: x.numpy() if x.device.type == "cpu" else x, tree)  # pyrefly: ignore


def put(column: Tensor, row: Tensor, values: Tensor) -> None:
    """Writes [time, env] values to rows."""
    values = values.reshape(-1, *values.shape[2:])
    column[row] = values.to(column.dtype) if isinstance(values, Tensor) else values


def clear(column: Tensor, row: Tensor) -> None:
    """Sets rows to 0; of a tensor without a number from the host, which a CUDA graph could not take."""
    if isinstance(column, Tensor):
        column.index_fill_(0, row, 0)
    else:
        column[row] = 0


def leaves(*trees: Tree) -> Iterator[tuple[Tensor, ...]]:
    """The leaves of observations of the same shape, side by side."""
    first = trees[0]
    if isinstance(first, dict):
        yield from (tuple(tree[key] for tree in trees) for key in first)  # pyrefly: ignore
    else:
        yield trees  # pyrefly: ignore
