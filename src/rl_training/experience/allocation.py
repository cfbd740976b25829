"""Allocation of large stores in memory, on a device, or in a mapped file, after a check that they fit."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Dict, Space, Tree
from rl_training.core.free_memory import GIGABYTE, memory_free


class Allocator:
    """A source of zeroed tensors on a device or, with a folder, in files there that are mapped into memory."""

    def __init__(self, device: torch.device, folder: str | None) -> None:
        if folder is not None and device.type != "cpu":
            raise ValueError(
                f"experience.buffer_folder={folder!r} maps files into memory, which is for buffer_device='cpu': drop one"
            )
        if folder is not None and sys.platform == "win32":
            raise ValueError(
                f"experience.buffer_folder={folder!r} needs files that stay mapped after their name is gone, which Windows does "
                "not have: drop it, and choose a buffer_size that fits into memory"
            )
        self.device, self.folder = device, None if folder is None else os.path.expanduser(folder)

    @property
    def place(self) -> str:
        if self.folder is not None:
            return f"in files in {self.folder}"
        return "in memory" if self.device.type == "cpu" else f"on {self.device}"

    def check(self, num_bytes: int, name: str, detail: str) -> None:
        """Raises a ValueError if `num_bytes` exceeds the free memory, or the free disk space; allocates nothing.

        The message names the setting `name`, and `detail`, which explains the size.
        """
        if self.folder is not None:
            free, place = disk_free(Path(self.folder)), f"free in {self.folder}"
            advice = "choose a smaller one or another buffer_folder"
        else:
            free, place = memory_free(self.device), f"free on {self.device}"
            advice = "choose a smaller one, or name a folder with experience.buffer_folder to keep it on disk"
        if num_bytes > free:
            raise ValueError(
                f"{name} needs {num_bytes / GIGABYTE:.2f} GB ({detail}), but only {free / GIGABYTE:.2f} GB are {place}: {advice}"
            )

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if self.folder is None and self.device.type != "cpu":
            return torch.zeros(shape, dtype=dtype, device=self.device)
        size = max(math.prod(shape), 1)
        if self.folder is None:  # by NumPy, for which memory is taken when it is written to, not now
            return (
                torch.from_numpy(np.zeros(size * dtype.itemsize, np.uint8)).view(dtype)[: math.prod(shape)].view(shape)
            )
        handle, name = tempfile.mkstemp(prefix="rl-training-replay-", dir=self.folder)
        os.truncate(handle, size * dtype.itemsize)
        os.close(handle)
        mapped = torch.from_file(name, shared=True, size=size, dtype=dtype)
        os.unlink(name)  # the mapping keeps the room; when the process ends, however it does, nothing is left
        return mapped[: math.prod(shape)].view(shape)

    def zeros_for(self, space: Space, num_rows: int, *, skip_first: bool = False) -> Tree:
        """Returns zeroed tensors [num_rows, ...] for elements of `space`; a dict of tensors for a Dict space.

        `skip_first` leaves out the first dimension of an element, that of stacked frames.
        """
        if isinstance(space, Dict):
            leaves = space.spaces.items()
            return {key: self.zeros_for(leaf, num_rows, skip_first=skip_first) for key, leaf in leaves}  # pyrefly: ignore
        return self.zeros((num_rows, *space.shape[1 if skip_first else 0 :]), getattr(torch, space.dtype))


def row_bytes(space: Space) -> int:
    leaves = space.spaces.values() if isinstance(space, Dict) else [space]
    return sum(math.prod(leaf.shape) * getattr(torch, leaf.dtype).itemsize for leaf in leaves)


def disk_free(folder: Path) -> int:
    if not folder.is_dir():
        raise ValueError(f"experience.buffer_folder={str(folder)!r} is not a folder: make it, or name another")
    return shutil.disk_usage(folder).free
