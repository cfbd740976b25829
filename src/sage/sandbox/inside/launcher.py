"""The launcher of an image's zygote in namespaces of its own: `python -m sage.sandbox.inside.launcher ROOT SOCKET`.

It is a program of its own because a whole process enters namespaces. It needs no privilege where ordinary users may
make user namespaces; as root it first becomes nobody.
"""

from __future__ import annotations

import os
import socket
import sys

from . import kernel
from .request import INNER_ID, NOBODY

NEW_ROOT = "/tmp/root"  # in a tmpfs of its own
DEVICES = ("null", "zero", "full", "random", "urandom")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": "/sage",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def main() -> None:
    root, channel = sys.argv[1], int(sys.argv[2])
    os.chdir(root)  # while it can be reached; the new namespace has its own copy of where we are
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        kernel.show_to_others()  # or /proc/self would be root's
    kernel.enter_namespaces(INNER_ID, "mount", "pid", "net", "ipc", "uts", "cgroup")
    child = os.fork()
    if child:
        os.closerange(3, 2**20)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    kernel.die_with_parent()
    build_root()
    socket.sethostname("sandbox")
    kernel.drop_privileges()
    os.set_inheritable(channel, True)
    os.closerange(3, channel)
    os.closerange(channel + 1, 2**20)
    os.execve("/usr/bin/python3", ["python3", "-m", "inside", "serve", str(channel)], ENVIRONMENT)


def build_root() -> None:
    """Makes the image, which is the current folder, the root: read-only, with a few devices and a /proc of its own."""
    kernel.mount("none", "/", None, kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount_memory("/tmp", 1, 100)
    os.mkdir(NEW_ROOT)
    kernel.mount(".", NEW_ROOT, None, kernel.BIND | kernel.RECURSIVE)
    kernel.protect(NEW_ROOT)
    kernel.mount_memory(f"{NEW_ROOT}/dev", 1, 100)
    for name in DEVICES:
        with open(f"{NEW_ROOT}/dev/{name}", "xb"):
            pass
        kernel.mount(f"/dev/{name}", f"{NEW_ROOT}/dev/{name}", None, kernel.BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{NEW_ROOT}/dev/{name}")
    os.mkdir(f"{NEW_ROOT}/dev/shm")
    kernel.mount_processes(f"{NEW_ROOT}/proc")  # all of it, or the kernel forbids the runs a view of their own
    kernel.protect(f"{NEW_ROOT}/dev")
    kernel.change_root(NEW_ROOT)


if __name__ == "__main__":
    main()
