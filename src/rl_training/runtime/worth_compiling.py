"""Whether compiling pays: the seconds it is expected to save, from constants measured once for each kind of device.

Nothing is timed inside a run, so that the same config takes the same path every time.
"""

from __future__ import annotations

import os
import shutil
from typing import Literal, NamedTuple

CompileMode = Literal["record"] | bool  # what runs: CUDA graphs of eager code, compiled code, or eager code


class Work(NamedTuple):
    """What a run does that could be compiled: updates and, on a GPU, steps of native environments."""

    calls: int
    rows: int  # that these calls go through, all together


class Gain(NamedTuple):
    """What compiling costs, and what it saves over what would run instead."""

    seconds: float  # to compile an algorithm's steps with an empty cache
    per_call: float  # seconds saved
    per_row: float = 0.0

    def pays_for(self, work: Work) -> bool:
        return work.calls * self.per_call + work.rows * self.per_row >= self.seconds


# cpu, instead of eager code: 10 to 30 s against 0.2 to 1 ms per update (benchmarks/results/speed.json).
# cuda, instead of recorded eager code (benchmarks/results/gpu_h200.txt, one H200): 15 s (SAC, DQN) and 35 s (PPO) against
# 0.13 (DQN), 0.26 (PPO, 4,096 environments) and 0.5 ms (SAC) per call; PPO with 65,536 environments 1.0 ms, of which
# 0.75 ms go with its 219,000 rows per call.
GAINS = {"cpu": Gain(20.0, 5e-4), "cuda": Gain(30.0, 2.5e-4, 3.5e-9)}


def resolve_compile(setting: Literal["auto"] | CompileMode, work: Work, device: str) -> CompileMode:
    """How a run of this size is executed: the same answer for the same config, also when it is resumed."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if setting is True and compiler is None:
        raise ValueError("compile=True needs a C++ compiler and none was found: install g++, or use compile=False")
    if setting == "auto":
        setting = True if compiler is not None and GAINS[device].pays_for(work) else "record"
    return False if setting == "record" and device == "cpu" else setting
