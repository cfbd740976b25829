"""When and how the update is compiled. The eager path is the reference; the compiled one is tested against it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from rl_training.core import Algorithm, Batch, Step
from rl_training.experience import gather

WORTH_COMPILING = 40_000  # updates; below, compiling (10-30 s once) costs more than it saves
UpdateStep = Callable[[Batch, Tensor], Step]


def resolve_compile(setting: Literal["auto"] | bool, expected_updates: int) -> bool:
    """Decides once, at the first start, whether to compile; the answer is written into the run's config."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if setting == "auto":
        return compiler is not None and expected_updates >= WORTH_COMPILING
    if setting and compiler is None:
        raise ValueError("compile=True needs a C++ compiler and none was found: install g++, or use compile=False")
    return setting


def compile_update(algorithm: Algorithm, *, compiled: bool, method: str = "update") -> UpdateStep:
    """Returns gather and update as one step, compiled into one graph if asked for."""
    learn = getattr(algorithm, method)

    def update(storage: Batch, index: Tensor) -> Step:
        return learn(gather(storage, index))

    if not compiled:
        return update
    torch._dynamo.config.trace_autograd_ops = True  # the gradient is part of the graph
    return torch.compile(update, fullgraph=True, dynamic=False)


def compile_block(block: Callable) -> Callable:
    """Compiles a block of policy and environment steps.

    Random numbers are drawn as eager code draws them, so that a block of eight and eight single steps agree: where a
    run is cut must not change it.
    """
    return torch.compile(block, fullgraph=True, dynamic=False, options={"fallback_random": True})
