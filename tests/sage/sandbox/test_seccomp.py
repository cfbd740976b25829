"""The filter of system calls, run as the kernel would run it."""

from __future__ import annotations

import errno
import struct

import pytest

from sage.sandbox import seccomp

ALLOW = seccomp.ALLOW
DENY, ABSENT = seccomp.FAIL | errno.EPERM, seccomp.FAIL | errno.ENOSYS


def verdict(program: bytes, architecture: int, number: int, first: int = 0) -> int:
    """What a classic BPF machine returns."""
    seen = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, first, 0, 0, 0, 0, 0)
    place = accumulator = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * place)
        place += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("=I", seen, value)[0]
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}[code]
            place += if_true if holds else if_false


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_what_is_listed_is_denied_and_the_rest_is_not(machine: str) -> None:
    found = seccomp.ARCHITECTURES[machine]
    index = list(seccomp.ARCHITECTURES).index(machine)
    answers = {n: verdict(seccomp.program(machine), found.audit, n) for n in range(found.newest + 1)}
    assert {n for n, answer in answers.items() if answer == DENY} == set(found.numbers.values())
    assert {n for n, answer in answers.items() if answer == ABSENT} == {pair[index] for pair in seccomp.ABSENT.values()}
    assert set(answers.values()) == {ALLOW, DENY, ABSENT}


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_clone_may_make_processes_but_no_namespaces(machine: str) -> None:
    found, program = seccomp.ARCHITECTURES[machine], seccomp.program(machine)
    clone = seccomp.CLONE[list(seccomp.ARCHITECTURES).index(machine)]
    assert verdict(program, found.audit, clone, first=17) == ALLOW
    assert verdict(program, found.audit, clone, first=0x3D0F00) == ALLOW  # as a thread
    for flag in seccomp.NEW_NAMESPACES:
        assert verdict(program, found.audit, clone, first=17 | flag) == DENY


def test_calls_by_other_numbers_are_not_a_way_around() -> None:
    program, audit = seccomp.program("x86_64"), seccomp.ARCHITECTURES["x86_64"].audit
    assert verdict(program, 0x40000003, 101) == seccomp.KILL  # i386
    assert verdict(program, audit, 0x40000000 + 101) == ABSENT  # x32
    assert verdict(program, audit, 450) == ABSENT  # newer than the table


def test_docker_gets_the_same_table() -> None:
    profile = seccomp.docker_profile("x86_64")
    denied = {name for rule in profile["syscalls"] if rule["errnoRet"] == errno.EPERM for name in rule["names"]}
    assert denied == set(seccomp.ARCHITECTURES["x86_64"].numbers) | {"clone"}
    assert {rule["args"][0]["value"] for rule in profile["syscalls"] if "args" in rule} == set(seccomp.NEW_NAMESPACES)
