"""The decision to compile: by the seconds that it should save, from constants measured once per kind of device.

Nothing is timed inside a run, so that the same config takes the same path every time.
"""

from __future__ import annotations

import os
import shutil
from typing import Literal, NamedTuple

CompileMode = Literal["record"] | bool  # what runs: CUDA graphs of eager code, compiled code, or eager code


class Work(NamedTuple):
    """The part of a run that could be compiled, as numbers: updates and, on a GPU, steps of native environments."""

    calls: int
    rows: int  # that these calls go through, all together
    replayed: bool = False  # steps are learned from more than once, from a buffer
    tensors: int = 0  # that a call trains: the more there are, the more operations it is made of
    parameters: int = 0  # in these tensors
    acts: int = 0  # decisions of the policy for environments that step on the host


class Gain(NamedTuple):
    """The seconds that compiling costs, and those it saves compared with the code that would run instead."""

    seconds: float  # to compile an algorithm's steps with an empty cache
    per_call: float  # seconds saved
    per_row: float = 0.0
    per_tensor: float = 0.0  # and call
    per_parameter: float = 0.0  # and call

    def net(self, work: Work) -> float:
        """Returns the seconds that compiling saves on this work, less the seconds that compiling costs."""
        network = work.tensors * self.per_tensor + min(work.parameters, MEASURED) * self.per_parameter
        return work.calls * (self.per_call + network) + work.rows * self.per_row - self.seconds


MEASURED = 400_000  # parameters: what larger networks gain is not known
# cpu, instead of eager code (benchmarks/results/compile_time.json, at real-time priority): 5 to 8 s for the updates. It saves
# DQN (6 tensors, 4,610 parameters) 0.57 ms per update, PPO (12, 9,155) 0.72, SAC with two layers of 64 (13, 13,637) 1.6 and
# with two of 256 (13, 217,871) 2.1 ms; 3.4 where oneDNN multiplies, which is left out here: the choice is the same everywhere.
# cuda, instead of recorded eager code, on fresh machines (benchmarks/results/gpu_h200.txt, one H200): 35 to 55 s for a
# rollout's steps and updates (PPO), 15 s where steps are replayed (SAC, DQN). It saves PPO 0.26 ms per call with 4,096
# environments and 1.0 ms with 65,536, of which 0.75 ms go with 219,000 rows; DQN 0.13 and SAC 0.31 ms.
GAINS = {"cpu": Gain(8.0, 0.0, per_tensor=8e-5, per_parameter=5e-9), "cuda": Gain(45.0, 2.2e-4, 3.5e-9)}
ACTING = Gain(2.2, 1.5e-5)  # on the host, too: it saves DQN and PPO 10 us per call, SAC with two layers of 256 30 us
REPLAY_ON_CUDA = Gain(15.0, 2e-4)
# Small networks as kernels of their own in recorded code: built in 5 s by 16 cores and 19 s by one; they save PPO 0.1 ms
# per call with 4,096 environments and 0.7 ms with 65,536.
KERNELS = Gain(8.0, 5e-5, 3e-9)


def resolve_compile(
    setting: Literal["auto"] | CompileMode, work: Work, device: str, *, small_networks: bool = False
) -> CompileMode:
    """Returns the mode in which a run of this size is executed: for "auto" the fastest by measured constants.

    Raises ValueError for True without a C++ compiler. The same config gives the same mode, also when it is resumed; on
    the CPU, where nothing is recorded, "record" becomes False.
    """
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if setting is True and compiler is None:
        raise ValueError("compile=True needs a C++ compiler and none was found: install g++, or use compile=False")
    if setting == "auto":
        gain = REPLAY_ON_CUDA if work.replayed and device == "cuda" else GAINS[device]
        otherwise = KERNELS.net(work) if small_networks and device == "cuda" else 0.0
        setting = True if compiler is not None and gain.net(work) >= max(otherwise, 0.0) else "record"
    return False if setting == "record" and device == "cpu" else setting


def acting_pays(setting: Literal["auto"] | CompileMode, work: Work) -> bool:
    """Returns True if, in a run that is compiled, the policy's decisions on the host are to be compiled, too."""
    return setting is True or ACTING.net(Work(work.acts, 0)) >= 0


def kernels_pay(mode: CompileMode, work: Work) -> bool:
    """Returns True if kernels made for small networks are to be used: in compiled code; in recorded code if it pays."""
    return mode is True or (mode == "record" and KERNELS.net(work) >= 0)
