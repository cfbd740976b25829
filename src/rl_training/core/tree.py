"""Tensors, and trees of them: a tensor, a dict of trees, or a (named) tuple of trees; None is an absent branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

Tree = Tensor | dict[str, Tensor]  # an observation: one tensor, or one per key
TreeT = TypeVar("TreeT")


def tree_map(fn: Callable[..., Tensor], tree: TreeT, *rest: TreeT) -> TreeT:
    """Returns a copy of `tree` with fn(leaf, *leaves) for every leaf, and the leaves at its place in the trees `rest`.

    A tree is a leaf, or a dict or (named) tuple of trees; None stays None.
    """
    if isinstance(tree, Tensor):
        return fn(tree, *rest)  # pyrefly: ignore
    if tree is None:
        return tree
    if isinstance(tree, dict):
        return {key: tree_map(fn, value, *(other[key] for other in rest)) for key, value in tree.items()}  # pyrefly: ignore
    if isinstance(tree, tuple):
        mapped = [tree_map(fn, *branches) for branches in zip(tree, *rest, strict=True)]  # pyrefly: ignore
        return type(tree)(*mapped) if hasattr(tree, "_fields") else tuple(mapped)  # pyrefly: ignore
    return fn(tree, *rest)  # pyrefly: ignore


def tree_leaves(tree: object) -> Iterator[Tensor]:
    """Yields the tensors of a tree in the order of its dicts and tuples; skips anything else, such as None."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from tree_leaves(value)
    elif isinstance(tree, tuple):
        for value in tree:
            yield from tree_leaves(value)


def saved_tensors(tree: object, name: str) -> Tree:
    """Returns `tree`, read from a file, if it is a tensor or a dict of such trees that is not empty.

    Otherwise raises a TypeError that begins with `name`.
    """
    if isinstance(tree, Tensor):
        return tree
    if isinstance(tree, dict) and tree:
        return {key: saved_tensors(value, f"{name}.{key}") for key, value in tree.items()}  # pyrefly: ignore
    raise TypeError(f"{name} is {tree!r} and no tensor")


def owned(x: Tensor) -> Tensor:
    """Returns a copy of a tensor in contiguous memory that torch has allocated, at a fixed alignment.

    Matrix products may round differently for another alignment of the same numbers: on an AMD EPYC, MKL does so where
    rows begin off a multiple of 16 bytes, and its manual promises equal results for 64 only. Torch aligns to 64 bytes;
    numpy to 16, and a tensor in a file begins where the one before it ended. What a run computes must depend on the
    numbers alone, so observations and loaded state pass through here before a network sees them.
    """
    return x.clone(memory_format=torch.contiguous_format)
