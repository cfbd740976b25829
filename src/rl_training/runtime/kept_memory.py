"""Keeping the memory of freed tensors for the next update, which the C library would return to the system each time."""

from __future__ import annotations

import ctypes
import logging
import platform
from functools import cache

LARGEST = 256 * 2**20  # bytes of a tensor, from which memory is returned as before
UNUSED = 512 * 2**20  # bytes at the end of the heap, from which memory is returned as before
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
log = logging.getLogger(__name__)


@cache
def keep_freed_memory() -> None:
    """Makes glibc keep freed blocks in this process; does nothing with other C libraries.

    A batch of 256 pictures passes through tensors of 100 MB, whose pages the system would hand out and zero anew in every
    update: a tenth of the CPU time of PPO on Pong.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    kept = library.mallopt(M_MMAP_THRESHOLD, LARGEST) and library.mallopt(M_TRIM_THRESHOLD, UNUSED)
    log.debug("freed memory is %s", "kept" if kept else "returned, because mallopt refused")
