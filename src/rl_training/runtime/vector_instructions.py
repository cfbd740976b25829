"""The vector instructions of code that is compiled for the CPU, chosen without torch's trial programs."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import Any


@cache
def choose_vector_instructions() -> None:
    """Makes torch choose vector instructions by the flags of the processor and by what the compiler accepts.

    Torch itself builds and loads up to eight programs, a third of the time of compiling with an empty cache. They show
    whether the compiler fits torch's libraries, as it does since g++ 8 knows AVX-512. Raises RuntimeError without a C++
    compiler. Does nothing on systems where torch builds no programs.
    """
    known = import_module("torch._inductor.cpu_vec_isa")  # slow
    trial = getattr(getattr(known, "VecISA", None), "check_build", None)
    if sys.platform != "linux" or trial is None:
        return
    known.VecISA.check_build = accepted
    try:
        known.valid_vec_isa_list()  # which torch keeps
    finally:
        known.VecISA.check_build = trial


def accepted(instructions: Any, _: str) -> bool:
    """Returns True if the C++ compiler knows the flags of these instructions."""
    compiler = import_module("torch._inductor.cpp_builder").get_cpp_compiler()
    flags = instructions.build_arch_flags().split()
    return not subprocess.run(
        [compiler, *flags, "-fsyntax-only", "-x", "c++", os.devnull], check=False, capture_output=True
    ).returncode
