"""The table of system calls that a command must not make, as a program for the kernel and as a profile for Docker.

Everything is allowed except the calls listed here and those newer than this table. A denied call fails with EPERM; a
newer one, and one that libraries can do without, fails with ENOSYS.
"""

from __future__ import annotations

import errno
import struct
from typing import NamedTuple


class Architecture(NamedTuple):
    audit: int  # the kernel's number for it
    docker: str
    newest: int  # the last call that this table knows
    numbers: dict[str, int]


# Numbers of x86_64 and of aarch64; None: the call does not exist there.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Of clone3 the flags lie in memory that a filter cannot read; libraries then use clone. Files of memfd_create count for no
# limit.
ABSENT = {"clone3": (435, 435), "memfd_create": (319, 279)}
CLONE = (56, 220)
NEW_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # flags of clone
ARCHITECTURES = {
    machine: Architecture(
        audit,
        docker,
        newest=449,
        numbers={name: number for name, pair in DENIED.items() if (number := pair[i]) is not None},
    )
    for i, (machine, audit, docker) in enumerate(
        [("x86_64", 0xC000003E, "SCMP_ARCH_X86_64"), ("aarch64", 0xC00000B7, "SCMP_ARCH_AARCH64")]
    )
}
LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in what a filter sees
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000


def program(machine: str) -> bytes:
    """Returns the seccomp filter for a kind of processor ('x86_64' or 'aarch64'), as the kernel takes it."""
    found = ARCHITECTURES[machine]
    index = list(ARCHITECTURES).index(machine)
    lines = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, found.audit),
        (RETURN, 0, 0, KILL),  # calls of another ABI have other numbers
        (LOAD, 0, 0, NUMBER),
        (JUMP_GREATER, 0, 1, found.newest),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
    ]
    answers = dict.fromkeys(found.numbers.values(), errno.EPERM)
    answers |= dict.fromkeys((pair[index] for pair in ABSENT.values()), errno.ENOSYS)
    for number, answer in sorted(answers.items()):
        lines += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | answer)]
    lines += [
        (JUMP_EQUAL, 0, 3, CLONE[index]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_ANY_BIT, 0, 1, sum(NEW_NAMESPACES)),
        (RETURN, 0, 0, FAIL | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def docker_profile(machine: str) -> dict:
    """Returns the same table as a seccomp profile in Docker's format, for a whole container."""
    found = ARCHITECTURES[machine]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [found.docker],
        "syscalls": [
            {"names": sorted(found.numbers), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
            {"names": sorted(ABSENT), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
            *(
                {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM, "args": [has(flag)]}
                for flag in NEW_NAMESPACES
            ),
        ],
    }


def has(flag: int) -> dict:
    """Returns the condition that the first argument of a call has a flag, in Docker's format."""
    return {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
