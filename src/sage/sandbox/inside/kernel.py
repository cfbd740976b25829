"""Calls of the Linux kernel that Python has no function for. Runs on both sides, with the standard library only."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Sequence
from functools import cache

NEW_NAMESPACES = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000}
NEW_NAMESPACES |= {"user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 0x20, 0x1000, 0x4000, 0x40000
NO_ATIME, NO_DIR_ATIME, REL_ATIME = 0x400, 0x800, 0x200000
DETACH = 2
SET_DUMPABLE, DROP_FROM_BOUNDING, SET_NO_NEW_PRIVILEGES, SET_SECCOMP, CLEAR_AMBIENT = 4, 24, 38, 22, 47
SET_CHILD_SUBREAPER, SET_DEATH_SIGNAL = 36, 1
SECCOMP_FILTER = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CLONE = {"x86_64": 56, "aarch64": 220}
CAPABILITIES_V3 = 0x20080522
LAST_CAPABILITY = 63


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def enter_namespaces(inner: int, *kinds: str) -> None:
    """Moves this process to a new user namespace, where it has the id `inner`, and to new ones of the given kinds.

    In a new pid namespace, the next child is the first process. Raises OSError if the kernel refuses.
    """
    user, group = os.getuid(), os.getgid()
    checked(f"new namespaces (user, {', '.join(kinds)})", libc().unshare(flags_of(kinds)))
    become(inner, user, group)


def fork_into_namespaces(inner: int, *kinds: str) -> int:
    """Forks like `os.fork`; the child is in new namespaces of the given kinds, where it has the id `inner`.

    In a new pid namespace, the child is the first process. Raises OSError if the kernel refuses.
    """
    user, group = os.getuid(), os.getgid()
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    child = ctypes.PyDLL(None, use_errno=True).syscall(
        CLONE[platform.machine()], flags_of(kinds) | signal.SIGCHLD, 0, 0, 0, 0
    )
    if child == 0:
        python.PyOS_AfterFork_Child()
        become(inner, user, group)
    else:
        python.PyOS_AfterFork_Parent()
    return checked(f"a process in new namespaces (user, {', '.join(kinds)})", child)


def flags_of(kinds: Sequence[str]) -> int:
    return sum(NEW_NAMESPACES[kind] for kind in ("user", *kinds))


def become(inner: int, user: int, group: int) -> None:
    """Maps the id `inner` of a new user namespace to the user and group that this process has outside."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inner} {user} 1"), ("gid_map", f"{inner} {group} 1")):
        with open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(text.encode())


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    result = libc().mount(*encoded, ctypes.c_ulong(flags), os.fsencode(options) or None)
    checked(f"mount {kind or source} on {target}", result)


def mount_memory(target: str, megabytes: float, files: int) -> None:
    """Mounts an empty folder in memory with a limited size and number of files, which no other namespace sees."""
    options = f"size={int(megabytes * 2**20)},nr_inodes={files},mode=0755"
    mount("tmpfs", target, "tmpfs", NO_SUID | NO_DEV, options)


def mount_processes(target: str, options: str = "") -> None:
    """Mounts the processes of this namespace as files (/proc)."""
    mount("proc", target, "proc", NO_SUID | NO_DEV | NO_EXEC, options)


def protect(target: str) -> None:
    """Makes a bind mount read-only and keeps its other flags, as the kernel demands."""
    has = os.statvfs(target).f_flag
    kept = {os.ST_NOSUID: NO_SUID, os.ST_NODEV: NO_DEV, os.ST_NOEXEC: NO_EXEC, os.ST_NOATIME: NO_ATIME}
    kept |= {os.ST_NODIRATIME: NO_DIR_ATIME, os.ST_RELATIME: REL_ATIME}
    flags = sum(flag for bit, flag in kept.items() if has & bit)
    mount("none", target, None, flags | REMOUNT | BIND | READ_ONLY | NO_SUID)


def change_root(folder: str) -> None:
    """Makes `folder`, a mount, the root of this namespace; the old root is gone."""
    os.chdir(folder)
    checked("pivot_root", libc().syscall(PIVOT_ROOT[platform.machine()], b".", b"."))
    checked("umount", libc().umount2(b".", DETACH))
    os.chdir("/")


def control(option: int, value: int = 0, pointer: ctypes.Structure | None = None) -> None:
    third = 0 if pointer is None else ctypes.byref(pointer)
    checked(f"prctl({option})", libc().prctl(option, ctypes.c_ulong(value), third, 0, 0))


def hide_from_others() -> None:
    """Keeps other processes of the same user from looking into this process or its files in /proc."""
    control(SET_DUMPABLE, 0)


def show_to_others() -> None:
    control(SET_DUMPABLE, 1)


def die_with_parent() -> None:
    control(SET_DEATH_SIGNAL, signal.SIGKILL)


def adopt_orphans() -> None:
    """Makes this process the parent of all processes below it whose own parent ends."""
    control(SET_CHILD_SUBREAPER, 1)


def drop_privileges() -> None:
    """Gives up all capabilities, and every way to get one."""
    control(SET_NO_NEW_PRIVILEGES, 1)
    for capability in range(LAST_CAPABILITY + 1):
        libc().prctl(DROP_FROM_BOUNDING, ctypes.c_ulong(capability), 0, 0, 0)  # fails past the last that exists
    libc().prctl(CLEAR_AMBIENT, ctypes.c_ulong(4), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_V3, 0)
    checked("capset", libc().capset(header, (ctypes.c_uint32 * 6)()))


def filter_calls(program: bytes) -> None:
    """Installs a seccomp program, which cannot be removed; call `drop_privileges` first."""
    control(SET_SECCOMP, SECCOMP_FILTER, Filter(len(program) // 8, program))
