"""When and how the update is compiled. The eager path is the reference; the compiled one is tested against it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any, Literal

import torch

from rl_training.core import Algorithm, Batch, Metrics, Step, tree_map
from rl_training.experience import Experience

WORTH_COMPILING = 40_000  # updates; below, compiling (10-30 s once) costs more than it saves
NUMBERS = count()
UpdateStep = Callable[[Any, Any], Metrics]  # of the experience's storage and one draw from it


def resolve_compile(setting: Literal["auto"] | bool, expected_updates: int) -> bool:
    """Decides once, at the first start, whether to compile; the answer is written into the run's config."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if setting == "auto":
        return compiler is not None and expected_updates >= WORTH_COMPILING
    if setting and compiler is None:
        raise ValueError("compile=True needs a C++ compiler and none was found: install g++, or use compile=False")
    return setting


def build_update(
    algorithm: Algorithm, experience: Experience, methods: tuple[str, ...], *, compiled: bool, device: torch.device
) -> UpdateStep:
    """Returns gathering and learning as one step, compiled into one graph if asked for.

    A storage on another device is read and written there, outside the graph.
    """
    methods_to_call = [getattr(algorithm, method) for method in methods]

    def learn(batch: Batch) -> Step:
        results = [method(batch) for method in methods_to_call]
        metrics = {name: value for result in results for name, value in result.metrics.items()}
        return Step(metrics, next((result.priority for result in results if result.priority is not None), None))

    def update(storage: Any, draw: Any) -> Metrics:
        batch = experience.gather(storage, draw)
        step = learn(batch)
        if step.priority is not None:
            experience.feedback(storage, batch, step.priority)
        return step.metrics

    if experience.device.type == device.type:
        return compile_graph(update, device) if compiled else update
    learn_there = compile_graph(learn, device) if compiled else learn

    def update_across(storage: Any, draw: Any) -> Metrics:
        batch = experience.gather(storage, draw)
        step = learn_there(tree_map(lambda x: x.to(device), batch))
        if step.priority is not None:
            experience.feedback(storage, batch, step.priority.to(experience.device))
        return step.metrics

    return update_across


def compile_graph(function: Callable, device: torch.device) -> Callable:
    """Compiles tensor code into one graph.

    Random numbers are drawn as eager code draws them: compiled and eager runs agree, a block of eight steps and eight
    single steps too, because where a run is cut must not change it. On the CPU the calls between kernels are C++ too.
    """
    torch._dynamo.config.trace_autograd_ops = True  # gradients are part of the graph
    options: dict[str, Any] = {"fallback_random": True, "cpp_wrapper": device.type == "cpu"}

    def run(*arguments: Any) -> Any:
        return function(*arguments)

    return torch.compile(own_code(run), fullgraph=True, dynamic=False, options=options)


def own_code(function: Callable) -> FunctionType:
    """A copy with a code object of its own.

    Torch keeps compiled variants by code object, tries them one after the other and gives up after eight: without
    this, the ninth agent of a process would fail, and every one before it would slow down those after.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(NUMBERS)}")
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
