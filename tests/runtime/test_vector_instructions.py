"""Vector instructions of compiled code: chosen without a trial program, and only those that the compiler knows."""

import platform

import pytest
import torch._inductor.cpu_vec_isa as known

from rl_training.runtime.vector_instructions import accepted, choose_vector_instructions

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86-64 processor: make test on one")


def test_torch_builds_nothing_to_choose_and_does_what_it_did_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> bool:
        pytest.fail("built a program")

    monkeypatch.setattr(known.VecISA, "check_build", build)
    known.valid_vec_isa_list.cache_clear()
    choose_vector_instructions.__wrapped__()
    chosen = [name for isa in known.valid_vec_isa_list() for name in str(isa).split()]
    assert set(chosen) >= set(known.x86_isa_checker()) & {"avx2", "avx512", "avx512_vnni"}
    assert known.VecISA.check_build is build


def test_instructions_that_the_compiler_does_not_know_are_not_accepted() -> None:
    class Instructions(known.VecAVX2):
        def __init__(self, flags: str) -> None:
            self.flags = flags

        def build_arch_flags(self) -> str:
            return self.flags

    assert accepted(Instructions("-mavx2 -mfma"), "")
    assert not accepted(Instructions("-mavx2 -mavx7"), "")
