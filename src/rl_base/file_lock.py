"""Locks on open files. The system takes one back when its process ends, however that happens.

Linux and macOS have `flock`, Windows has `LockFileEx`. Both wait in the kernel until their turn comes, and both belong to
one opening of the file: a second opening waits even within the same process. Where there is neither, nothing is locked.
"""

from __future__ import annotations

import sys

try:
    import fcntl
except ImportError:
    fcntl = None

if sys.platform == "win32":
    import ctypes
    import msvcrt

    FAIL_IMMEDIATELY, EXCLUSIVE, LOCK_VIOLATION = 1, 2, 33
    KERNEL = ctypes.WinDLL("kernel32", use_last_error=True)

    class Overlapped(ctypes.Structure):
        """The OVERLAPPED structure of Windows: the byte to lock, behind the file's end so that content can be read."""

        _fields_ = [
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", ctypes.c_uint32),
            ("offset_high", ctypes.c_uint32),
            ("event", ctypes.c_void_p),
        ]

    def call(function: str, descriptor: int, *flags: int) -> None:
        words = [ctypes.c_uint32(word) for word in (*flags, 0, 1, 0)]  # reserved, and the length in two words
        overlapped = ctypes.byref(Overlapped(offset_high=1))
        if not getattr(KERNEL, function)(ctypes.c_void_p(msvcrt.get_osfhandle(descriptor)), *words, overlapped):
            code = ctypes.get_last_error()
            raise BlockingIOError(code, "locked by another") if code == LOCK_VIOLATION else ctypes.WinError(code)


def lock(descriptor: int, *, wait: bool) -> None:
    """Locks an open file, given its descriptor, until it is closed or unlocked.

    If the file is locked already, also by another opening in this process, waits or, without `wait`, raises
    BlockingIOError. Does nothing on systems without file locks.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif sys.platform == "win32":
        call("LockFileEx", descriptor, EXCLUSIVE if wait else EXCLUSIVE | FAIL_IMMEDIATELY)


def unlock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    elif sys.platform == "win32":
        call("UnlockFileEx", descriptor)
