"""Whether compiling pays: the seconds it is expected to save, from constants measured once for each kind of device.

Nothing is timed inside a run, so that the same config takes the same path every time.
"""

from __future__ import annotations

import os
import shutil
from typing import Literal, NamedTuple

CompileMode = Literal["record"] | bool  # what runs: CUDA graphs of eager code, compiled code, or eager code


class Gain(NamedTuple):
    """What compiling costs, and what it saves over what would run instead."""

    seconds: float  # to compile an algorithm's steps with an empty cache
    per_call: float  # seconds saved by every update and, on a GPU, every step of native environments

    @property
    def calls(self) -> int:
        """From how many calls on it pays."""
        return round(self.seconds / self.per_call)


# cpu: 10 to 30 s against 0.2 to 1 ms (benchmarks/results/speed.json); the alternative is eager code.
# cuda: 15 s (SAC, DQN) and 30 s (PPO) against 0.13 (DQN), 0.18 (PPO) and 0.5 ms (SAC), one H200; the alternative is
# recorded eager code (benchmarks/results/gpu_h200.txt).
GAINS = {"cpu": Gain(20.0, 5e-4), "cuda": Gain(20.0, 2.5e-4)}


def resolve_compile(setting: Literal["auto"] | CompileMode, calls: int, device: str) -> CompileMode:
    """How a run with so many calls is executed: the same answer for the same config, also when it is resumed."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if setting is True and compiler is None:
        raise ValueError("compile=True needs a C++ compiler and none was found: install g++, or use compile=False")
    if setting == "auto":
        setting = True if compiler is not None and calls >= GAINS[device].calls else "record"
    return False if setting == "record" and device == "cpu" else setting
