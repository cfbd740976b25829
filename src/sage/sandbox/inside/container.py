"""The first process of a container: the supervisor of one run after another.

Commands can neither kill nor stop it, since it is the first of its namespace, nor look into it. When the caller is
gone, its standard input ends, it ends, and the container with it.
"""

from __future__ import annotations

import os
import signal
import traceback

from . import frames, kernel
from .command import execute
from .request import SHARED_MEMORY, TEMPORARY, WORK, request_of
from .serving import MOST_REQUEST
from .supervisor import supervise
from .work_folder import empty

FOLDERS = (WORK, TEMPORARY, SHARED_MEMORY)
GROUPS = "/sys/fs/cgroup"


def serve_container() -> None:
    """Answers requests from standard input on standard output, until the input ends or a run cannot be cleaned up."""
    seen = enforced()
    kernel.hide_from_others()
    kernel.drop_privileges()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the first process of a namespace does not get from within
    answers = os.dup(1)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    send(answers, frames.pack(seen, []))
    receive = frames.exact_reader(lambda size: os.read(0, size))
    try:
        while True:
            header, blobs = frames.unpack(receive, MOST_REQUEST)
            frame = supervise(request_of(header, blobs), execute, 0)
            for folder in FOLDERS:
                empty(folder)
            send(answers, frame)
    except frames.FrameError:
        return  # the caller is gone
    except BaseException:
        send(answers, frames.pack({"failure": traceback.format_exc()}, []))


def send(descriptor: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(descriptor, view) :]


def enforced() -> dict[str, object]:
    """Returns what the engine enforces, as seen from inside, by name: user, capabilities, network and limits.

    A limit that cannot be seen is None.
    """
    status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines() if ":" in line)
    with open("/proc/net/dev", encoding="ascii") as file:
        interfaces = [line.split(":")[0].strip() for line in file if ":" in line]
    return {
        "process": os.getpid(),
        "user": os.getuid(),
        "capabilities": int(status["CapBnd"], 16) | int(status["CapEff"], 16),
        "no_new_privileges": int(status["NoNewPrivs"]),
        "seccomp": int(status["Seccomp"]),
        "interfaces": interfaces,
        "read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "disk": [size_of(folder) for folder in FOLDERS],
        "sees_control_groups": os.path.isdir(GROUPS) and bool(os.listdir(GROUPS)),
        "processes": number(read(f"{GROUPS}/pids.max", f"{GROUPS}/pids/pids.max")),
        "memory": number(read(f"{GROUPS}/memory.max", f"{GROUPS}/memory/memory.limit_in_bytes")),
        "swap": swap(),
        "cpus": cpus(),
    }


def read(*paths: str) -> str:
    """Returns the text of the first path that exists, without blanks around it; '' if none does.

    Paths come in pairs: version 2 of control groups, then version 1.
    """
    for path in paths:
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                return file.read().strip()
    return ""


def number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def size_of(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize


def swap() -> int | None:
    """Returns the bytes of swap that may be used on top of the memory; None if there is no limit."""
    both = number(read(f"{GROUPS}/memory/memory.memsw.limit_in_bytes"))
    if both is not None:
        return both - (number(read(f"{GROUPS}/memory/memory.limit_in_bytes")) or 0)
    facts = dict(line.split(":", 1) for line in read("/proc/meminfo").splitlines())
    return 0 if facts["SwapTotal"].split()[0] == "0" else number(read(f"{GROUPS}/memory.swap.max"))


def cpus() -> float | None:
    quota, _, period = read(f"{GROUPS}/cpu.max").partition(" ")
    quota = quota or read(f"{GROUPS}/cpu/cpu.cfs_quota_us")
    period = period or read(f"{GROUPS}/cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


if __name__ == "__main__":
    serve_container()
