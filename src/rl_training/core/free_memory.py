"""Free memory of the host and of devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

CGROUP = Path("/sys/fs/cgroup")
GIGABYTE = 1e9
MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}  # of tensors of a given shape
COUNTERS = {torch.arange, torch.linspace}  # of tensors as long as the largest number
HOST = torch.device("cpu")


class WeighedTensors(TorchFunctionMode):
    """A torch mode that adds up the bytes of tensors made while it is active, by torch.zeros, arange and the like.

    It raises a ValueError, with the text that `refusal` returns, once `copies` times the sum exceed free memory.
    """

    def __init__(self, copies: int, refusal: Callable[[str, tuple[int, ...]], str]) -> None:
        super().__init__()
        self.copies, self.refusal, self.total, self.free = copies, refusal, 0, memory_free(HOST)

    def __torch_function__(self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        if func in MAKERS or func in COUNTERS:
            shape = shape_of(args, kwargs or {})
            dtype = (kwargs or {}).get("dtype") or torch.get_default_dtype()
            if func in COUNTERS:
                shape, dtype = (max(shape, default=0),), torch.int64
            self.total += math.prod(shape) * dtype.itemsize
            if self.copies * self.total > self.free:
                needed = (
                    f"{self.copies * self.total / GIGABYTE:,.2f} GB, but only {self.free / GIGABYTE:.2f} GB are free"
                )
                raise ValueError(self.refusal(needed, shape))
        return func(*args, **(kwargs or {}))


def shape_of(args: tuple, kwargs: dict) -> tuple[int, ...]:
    """Returns the shape in arguments for torch.zeros and the like, where it is one list or one int per dimension."""
    size = kwargs.get("size", args)
    listed = len(size) and isinstance(size[0], list | tuple)
    return tuple(number for number in (size[0] if listed else size) if isinstance(number, int))


def check_memory(num_bytes: int, name: str, device: torch.device = HOST) -> None:
    """Raises a ValueError that begins with `name` if `num_bytes` exceeds the device's free memory."""
    free = memory_free(device)
    if num_bytes > free:
        raise ValueError(
            f"{name} needs {num_bytes / GIGABYTE:,.2f} GB, but only {free / GIGABYTE:.2f} GB are free on {device}: choose a "
            "smaller one"
        )


def memory_free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [line_value(Path("/proc/meminfo"), "MemAvailable:", 1024)]
    quota, used = line_value(CGROUP / "memory.max"), line_value(CGROUP / "memory.current")
    if quota is not None and used is not None:
        reclaimable = line_value(CGROUP / "memory.stat", "inactive_file") or 0
        limits.append(quota - used + reclaimable)
    return min((limit for limit in limits if limit is not None), default=2**62)


def line_value(file: Path, key: str = "", scale: int = 1) -> int | None:
    """Returns the int after `key` in the first line that starts with it, times `scale`; None if there is none."""
    try:
        words = next(
            line.removeprefix(key).split()
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.startswith(key)
        )
        return int(words[0]) * scale
    except (OSError, StopIteration, ValueError, IndexError):
        return None
