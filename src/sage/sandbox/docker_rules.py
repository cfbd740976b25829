"""Options that start a container safely, and the facts that the container must report before it is used."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple

from sage.sandbox import exchange, seccomp
from sage.sandbox.contract import MOST_FILES, Limits, SandboxError

USER = 1000  # the image's `sage`
OWN_MEMORY_MB = 64  # of the supervisor
SHARED_MEMORY_MB = 16
COPIES = (
    4  # of the files that the supervisor may have in memory: as they came and as they go, each in parts and as a frame
)
OWN_PROCESSES = 1
FEWEST_PROCESSES = 14  # the engine itself needs about as many to start a container
SUPERVISOR_CALLS = {"memfd_create"}  # the command's own filter denies them
# No folders of its own, and no more processes than a user may have: it would ask for the most that there can be.
FOR_PODMAN = ("--read-only-tmpfs=false", "--ulimit", "nproc=16384")
NOTHING = "ro,nosuid,nodev,noexec,size=4k,mode=0555"
IN_CONTROL_GROUPS = {"processes", "memory", "swap", "cpus"}  # facts that can be seen only where those are mounted


class ContainerShape(NamedTuple):
    """The limits that a container is created with."""

    memory_mb: int
    processes: int
    disk_mb: int
    open_files: int

    @classmethod
    def of(cls, limits: Limits) -> ContainerShape:
        if limits.processes < FEWEST_PROCESSES:
            raise SandboxError(
                f"processes={limits.processes} is less than an engine needs to start a container: set it to "
                f"{FEWEST_PROCESSES} or more, or use another backend"
            )
        return cls(limits.memory_mb, limits.processes, limits.disk_mb, limits.open_files)

    @property
    def memory(self) -> int:
        """Returns the memory limit of the whole container in bytes, for the command, its files and the supervisor."""
        files = 2 * self.disk_mb + SHARED_MEMORY_MB
        return (self.memory_mb + files + OWN_MEMORY_MB + COPIES * self.disk_mb) * 2**20


def run_words(engine: str, name: str, shape: ContainerShape, *, cpus: float, profile: Path, bare: bool) -> list[str]:
    """Returns the arguments of the engine's `run` command, which start the container `name` with these limits.

    A `bare` container sees nothing of the system, not even its own limits; `profile` is the file of denied system
    calls.
    """
    is_podman = Path(engine).name == "podman"
    folder = f"rw,exec,nosuid,nodev,mode=1777,size={shape.disk_mb * 2**20}"
    if not is_podman:  # which does not know this; the supervisor counts files, too
        folder += f",nr_inodes={MOST_FILES}"
    return [
        *("run", "--interactive", "--rm", "--pull", "never", "--name", name, "--hostname", "sandbox"),
        *("--network", "none", "--ipc", "private", "--read-only", "--log-driver", "none"),
        *("--user", f"{USER}:{USER}", "--cap-drop", "ALL", "--workdir", "/work"),
        *("--env", "PYTHONPATH=/sage", "--env", "PYTHONSAFEPATH=1", "--env", "LC_ALL=C.UTF-8"),
        *("--security-opt", "no-new-privileges", "--security-opt", f"seccomp={profile}"),
        *("--memory", str(shape.memory), "--memory-swap", str(shape.memory), "--cpus", str(cpus)),
        *("--pids-limit", str(shape.processes + OWN_PROCESSES)),
        *("--ulimit", f"nofile={shape.open_files + 64}", "--ulimit", "core=0"),
        *("--tmpfs", f"/work:{folder}", "--tmpfs", f"/tmp:{folder}", "--shm-size", f"{SHARED_MEMORY_MB}m"),
        *(("--tmpfs", f"/sys:{NOTHING}", "--tmpfs", f"/sys/fs/cgroup:{NOTHING}") if bare else ()),
        *(FOR_PODMAN if is_podman else ("--dns", "127.0.0.1")),  # or it would name the host's servers
    ]


def call_profile() -> dict:
    """Returns the seccomp profile of denied system calls, without those that the supervisor makes.

    Raises SandboxError if there is no table for this processor.
    """
    machine = platform.machine()
    exchange.call_filter()  # has the sentence for machines without a table
    profile = seccomp.docker_profile(machine)
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in SUPERVISOR_CALLS]
    return profile


def not_enforced(facts: dict, shape: ContainerShape, *, cpus: float, bare: bool) -> list[str]:
    """Returns a phrase for every restriction that the reported facts do not show; an empty list if all are enforced."""
    disk, shared = shape.disk_mb * 2**20, SHARED_MEMORY_MB * 2**20
    wanted = {
        "process": (1, "a process tree of its own"),
        "user": (USER, "an ordinary user"),
        "capabilities": (0, "that there are no capabilities"),
        "no_new_privileges": (1, "no-new-privileges"),
        "seccomp": (2, "the filter of system calls"),
        "interfaces": (["lo"], "that there is no network"),
        "read_only": (True, "a read-only image"),
        "disk": ([disk, disk, shared], f"disk_mb={shape.disk_mb}"),
        "sees_control_groups": (not bare, "that the system is hidden"),
        "processes": (shape.processes + OWN_PROCESSES, f"processes={shape.processes}"),
        "memory": (shape.memory, f"memory_mb={shape.memory_mb}"),
        "swap": (0, "memory_mb without swap"),
        "cpus": (cpus, f"cpus={cpus}"),
    }
    return [
        f"{meaning} (it has {facts.get(key)!r}, not {value!r})"
        for key, (value, meaning) in wanted.items()
        if facts.get(key) != value and not (bare and key in IN_CONTROL_GROUPS)
    ]
