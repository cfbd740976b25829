"""Copies between host and device: many small tensors at once, from memory that the device reads by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from rl_training.core import tree_leaves, tree_map

ALIGNMENT = 16  # bytes; compiled code reads tensors in pieces of this size
TreeT = TypeVar("TreeT")


class TensorSlice(NamedTuple):
    """The place of one tensor in the bytes of a transfer: start and end in bytes, type and shape."""

    start: int
    end: int
    dtype: torch.dtype
    shape: torch.Size

    def view(self, flat: Tensor) -> Tensor:
        return flat[self.start : self.end].view(self.dtype).view(self.shape)


class Packed:
    """A function of a tree that copies its CPU tensors to a device in one transfer; tensors elsewhere stay as they are.

    To a GPU, the transfer leaves from pinned memory and is not waited for: two buffers take turns, and each is written
    again only after its last transfer has left. The returned tensors have memory of their own.
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
    """A buffer of host memory that holds the bytes of one transfer at a time; pinned if the device is a GPU."""

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
    """A copy of small tensors to the host that begins at construction; `numbers` waits for its end."""

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
        """Waits for the copy and returns a list of numbers for every tensor, in the order of the tensors."""
        if self.arrived is not None:
            self.arrived.synchronize()
        found: list[list[float]] = [[] for _ in self.sizes]
        for indices, flat in self.chunks:
            column = iter(flat.tolist())
            for index in indices:
                found[index] = [float(next(column)) for _ in range(self.sizes[index])]
        return found


def to_host(tensor: Tensor) -> Tensor:
    """Starts a copy of a GPU tensor to the host and returns it without waiting; returns a CPU tensor as it is."""
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def arrange(leaves: Sequence[Tensor]) -> list[TensorSlice]:
    """Returns a slice for each tensor in one buffer, in their order; each start is a multiple of `ALIGNMENT` bytes."""
    slices, end = [], 0
    for leaf in leaves:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + leaf.numel() * leaf.element_size()
        slices.append(TensorSlice(start, end, leaf.dtype, leaf.shape))
    return slices


def copy_all(targets: Sequence[Tensor], sources: Iterable[Tensor]) -> None:
    """Copies every source into the target in the same position, in place; on a GPU with one kernel for each type."""
    groups: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        to, origin = groups.setdefault(target.dtype, ([], []))
        to.append(target)
        origin.append(source)
    for to, origin in groups.values():
        torch._foreach_copy_(to, origin)
