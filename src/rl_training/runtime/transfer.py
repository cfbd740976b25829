"""Between host and device: many small tensors as one copy, from memory that the device reads by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from rl_training.core import tree_leaves, tree_map

ALIGNMENT = 16  # bytes; compiled code reads tensors in pieces of this size
TreeT = TypeVar("TreeT")


class TensorSlice(NamedTuple):
    """The slice of one tensor in the bytes of a transfer."""

    start: int
    end: int
    dtype: torch.dtype
    shape: torch.Size

    def view(self, flat: Tensor) -> Tensor:
        return flat[self.start : self.end].view(self.dtype).view(self.shape)


class Packed:
    """Copies trees of host tensors to a device, each tree in one transfer; leaves that are there already stay.

    To a GPU, bytes leave from pinned memory and nobody waits for them: two stages take turns, and each is written again
    only when what left from it has arrived. What is returned has memory of its own.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.signature: tuple = ()
        self.slices: list[TensorSlice] = []
        self.stages: tuple[Stage, ...] = ()

    def __call__(self, tree: TreeT) -> TreeT:
        leaves = [leaf for leaf in tree_leaves(tree) if leaf.device.type == "cpu"]
        if not leaves:
            return tree
        signature = tuple((leaf.dtype, leaf.shape) for leaf in leaves)
        if signature != self.signature:
            self.signature, self.slices = signature, arrange(leaves)
            self.stages = (Stage(self.slices, self.device), Stage(self.slices, self.device))
        self.stages = self.stages[::-1]
        flat = self.stages[0].send(leaves)
        sent = iter([one.view(flat) for one in self.slices])
        return tree_map(lambda leaf: next(sent) if leaf.device.type == "cpu" else leaf, tree)


class Stage:
    """Host memory that one transfer at a time leaves from."""

    def __init__(self, slices: list[TensorSlice], device: torch.device) -> None:
        self.device = device
        self.left = torch.cuda.Event() if device.type == "cuda" else None
        self.flat = torch.empty(slices[-1].end, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self.views = [one.view(self.flat) for one in slices]

    def send(self, leaves: Sequence[Tensor]) -> Tensor:
        if self.left is not None:
            self.left.synchronize()  # the last transfer may still be reading
        for view, leaf in zip(self.views, leaves, strict=True):
            view.copy_(leaf)
        flat = self.flat.to(self.device, non_blocking=True, copy=True)
        if self.left is not None:
            self.left.record(torch.cuda.current_stream(self.device))
        return flat


class Reading:
    """Copies small tensors to the host: asked for at once, waited for only when the numbers are wanted."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        alike: dict[tuple, list[int]] = {}
        for index, tensor in enumerate(tensors):
            alike.setdefault((tensor.device, tensor.dtype), []).append(index)
        self.sizes = [tensor.numel() for tensor in tensors]
        self.chunks = [
            (indices, to_host(torch.cat([tensors[i].reshape(-1) for i in indices]))) for indices in alike.values()
        ]
        self.arrived = torch.cuda.Event() if any(tensor.is_cuda for tensor in tensors) else None
        if self.arrived is not None:
            self.arrived.record()

    def numbers(self) -> list[list[float]]:
        """Returns the numbers of every tensor, in the order in which they were asked for."""
        if self.arrived is not None:
            self.arrived.synchronize()
        found: list[list[float]] = [[] for _ in self.sizes]
        for indices, flat in self.chunks:
            column = iter(flat.tolist())
            for index in indices:
                found[index] = [float(next(column)) for _ in range(self.sizes[index])]
        return found


def to_host(tensor: Tensor) -> Tensor:
    """Starts a copy of a tensor to the host without waiting for it; one that is there already is returned as it is."""
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def arrange(leaves: Sequence[Tensor]) -> list[TensorSlice]:
    """Returns one slice per tensor, in their order; each begins where any type may."""
    slices, end = [], 0
    for leaf in leaves:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + leaf.numel() * leaf.element_size()
        slices.append(TensorSlice(start, end, leaf.dtype, leaf.shape))
    return slices


def copy_all(targets: Sequence[Tensor], sources: Iterable[Tensor]) -> None:
    """Writes tensors into others with one call for all of a type, which on a GPU is one kernel."""
    groups: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        to, origin = groups.setdefault(target.dtype, ([], []))
        to.append(target)
        origin.append(source)
    for to, origin in groups.values():
        torch._foreach_copy_(to, origin)
