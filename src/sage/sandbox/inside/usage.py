"""The resources that a run uses: memory of all its processes, and files."""

from __future__ import annotations

import os
import resource

from .request import SHARED_MEMORY, TEMPORARY, WORK

PAGE = resource.getpagesize()


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def memory_mb(limit: float) -> float:
    """Returns the memory of all processes but this one, in MB.

    Shared pages are counted once only if the sum is above `limit`, because that takes longer.
    """
    found = sum(resident_mb(process) for process in processes())
    return found if found <= limit else sum(proportional_mb(process) for process in processes())


def num_files() -> int:
    """Returns the number of files in the folder that has most of them; empty files take memory, too."""
    found = [os.statvfs(folder) for folder in (WORK, TEMPORARY, SHARED_MEMORY)]
    return max(folder.f_files - folder.f_ffree for folder in found)


def resident_mb(process: int) -> float:
    return int(of_process(process, "statm").split()[1]) * PAGE / 2**20


def proportional_mb(process: int) -> float:
    found = [line for line in of_process(process, "smaps_rollup").splitlines() if line.startswith(b"Pss:")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


def of_process(process: int, name: str) -> bytes:
    """Returns the content of a file in /proc about a process.

    Zeros if the process is gone or must not be looked into.
    """
    try:
        with open(f"/proc/{process}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b"0 0"
