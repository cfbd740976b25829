"""Free memory of the host and of devices."""

from __future__ import annotations

from pathlib import Path

import torch

CGROUP = Path("/sys/fs/cgroup")
GIGABYTE = 1e9
HOST = torch.device("cpu")


def check_memory(num_bytes: int, name: str, device: torch.device = HOST) -> None:
    """Refuses what does not fit into memory, with the numbers, before anything is allocated."""
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
    """The number in a file, or in its line that starts with `key`; None where there is none."""
    try:
        words = next(
            line.removeprefix(key).split()
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.startswith(key)
        )
        return int(words[0]) * scale
    except (OSError, StopIteration, ValueError, IndexError):
        return None
