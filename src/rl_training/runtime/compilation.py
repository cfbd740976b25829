"""Compilation and recording of the update. The eager path is the reference; the compiled one is tested against it."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from itertools import count
from types import FunctionType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rl_training.core import Algorithm, Metrics, Pass, Step, Weighted, tree_leaves, tree_map
from rl_training.experience.base import Experience, SampledExperience
from rl_training.runtime.cache_folder import keep_compiled_code
from rl_training.runtime.cuda_graph import CudaGraph

MAX_BLOCK = 20  # updates in one CUDA graph
NUMBERS = count()
Precision = Literal["float32", "tf32", "bf16"]
UpdateStep = Callable[[Any, Any], Metrics]  # of the experience's storage and one draw from it
UpdateBlock = Callable[[Any], Metrics]  # of the storage
REASONS: set[str] = set()  # for which something runs eagerly, as said once
log = logging.getLogger(__name__)


def block_size(a_pass: Pass) -> int:
    """Returns how many updates go into one graph: at most MAX_BLOCK, and such that few different graphs are needed."""

    def fits(size: int) -> bool:
        return a_pass.rounds % size == 0 and all(
            extra.unit == "updates" and (size % extra.every == 0 or extra.every % size == 0)
            for extra in a_pass.periodic
        )

    return next((size for size in range(MAX_BLOCK, 1, -1) if fits(size)), 1)


def build_update(
    algorithm: Algorithm,
    experience: Experience,
    methods: tuple[str, ...],
    *,
    compiled: bool,
    device: torch.device,
    precision: Precision = "float32",
) -> UpdateStep:
    """Returns gathering and learning as one step, compiled into one graph if asked for.

    A storage on another device is read and written there, outside the graph. With bf16, matrix products are rounded
    to it; parameters, losses and optimizers stay in float32.
    """
    methods_to_call = [getattr(algorithm, method) for method in methods]

    def products() -> Any:
        # Without a cache: an optimizer's step in the middle changes the weights that were rounded.
        return (
            torch.autocast(device.type, torch.bfloat16, cache_enabled=False) if precision == "bf16" else nullcontext()
        )

    def learn(batch: Weighted) -> Step:
        with products():
            results = [method(batch) for method in methods_to_call]
        metrics = {name: value for result in results for name, value in result.metrics.items()}
        return Step(metrics, {name: value for result in results for name, value in result.rows.items()})

    across = experience.device.type != device.type
    run = compile_graph(learn, device) if compiled and across else learn

    def update(storage: Any, draw: Any) -> Metrics:
        batch = experience.gather(storage, draw)
        there = tree_map(lambda x: x.to(device), batch) if across else batch
        step = run(there)
        rows = tree_map(lambda x: x.to(experience.device), step.rows) if across else step.rows
        experience.feedback(storage, batch, rows)
        return step.metrics | experience.describe(there, step.rows)

    return compile_graph(update, device) if compiled and not across else update


def record_block(steps: Sequence[UpdateStep], experience: SampledExperience, batch_size: int) -> UpdateBlock:
    """Returns some updates in a row, their draws included, as one CUDA graph.

    It expects the storage where it was at first, and returns averaged metrics.
    """
    names: list[str] = []
    storages: list[Any] = []

    def run() -> Tensor:
        draws = [experience.draw(batch_size) for _ in steps]
        metrics = [step(storages[0], draw) for step, draw in zip(steps, draws, strict=True)]
        names[:] = dict.fromkeys(name for one in metrics for name in one)
        columns = [[one[name] for one in metrics if name in one] for name in names]
        return torch.stack([torch.stack(c).mean() if len(c) > 1 else c[0] for c in columns])

    graph = CudaGraph(run, experience.generators)

    def replay(storage: Any) -> Metrics:
        storages[:] = [storage]
        averages = graph()
        return dict(zip(names, averages.unbind(), strict=True))

    return replay


def compile_graph(function: Callable, device: torch.device) -> Callable:
    """Compiles tensor code into one graph.

    Random numbers are drawn as eager code draws them: compiled and eager runs agree, a block of eight steps and eight
    single steps too, because where a run is cut must not change it. On the CPU the calls between kernels are C++ too.
    Where the compiler fails, the code runs eagerly, and the reason is said once. What was compiled is kept between runs.
    """
    keep_compiled_code()
    end_workers_at_exit()
    torch._dynamo.config.trace_autograd_ops = True  # gradients are part of the graph

    def run(*arguments: Any) -> Any:
        return function(*arguments)

    compiled = torch.compile(own_code(run), fullgraph=True, dynamic=False, options=compiler_options(device))
    ahead = device.type == "cpu" and hasattr(compiled, "aot_compile")
    return ByShape(compiled, function) if ahead else OrEager(compiled, function)


@cache
def end_workers_at_exit() -> None:
    """Has the compiler's worker processes ended, and not waited for, when this process exits."""
    import_module("torch._inductor.async_compile")  # registers torch's own handler, which is then called after ours
    atexit.register(end_workers)


def end_workers() -> None:
    """Ends the compiler's worker processes at once: asked to end, they finish starting first, which takes seconds."""
    for pool in torch._inductor.async_compile._pool_set:
        if isinstance(pool, torch._inductor.compile_worker.subproc_pool.SubprocPool):
            with pool.write_lock:
                pool.running = False  # or its thread would warn that the other end is gone
            pool.process.kill()


def compiler_options(device: torch.device) -> dict[str, Any]:
    options: dict[str, Any] = {"fallback_random": True}
    options |= {"reorder_for_locality": False, "reorder_for_peak_memory": False}  # which reorder draws too, before 2.13
    if torch.__version__ < "2.13":
        from rl_training.runtime.draw_order import DrawsInOrder  # slow to import

        options["post_grad_custom_post_pass"] = DrawsInOrder()
    if device.type == "cpu":
        options["cpp_wrapper"] = True
    else:
        options["loop_ordering_after_fusion"] = False  # torch 2.11 fails on SAC's update with it
        options["combo_kernels"] = True  # small kernels that do not wait for each other become one
        options["force_pointwise_cat"] = True  # gradients are put in a row by one kernel, not by one for each
    return options


class OrEager:
    """Calls the compiled code or, once compiling has failed, the code that it was to be compiled from.

    A mistake in that code itself is not hidden: called eagerly, it raises its own error.
    """

    def __init__(self, compiled: Any, function: Callable) -> None:
        self.compiled, self.function, self.failed = compiled, function, False

    def __call__(self, *arguments: Any) -> Any:
        if self.failed:
            return self.function(*arguments)
        try:
            return self.compiled(*arguments)
        except torch._dynamo.exc.TorchDynamoException as error:  # of the compiler; nothing was computed yet
            return self.give_up(error, arguments)

    def give_up(self, error: RuntimeError, arguments: tuple) -> Any:
        result = self.function(*arguments)
        self.failed = True
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if reason not in REASONS:
            REASONS.add(reason)
            log.warning(
                "compiling failed, so the code runs eagerly from here on, with the same numbers, slower: %s", reason
            )
        return result


class ByShape(OrEager):
    """Calls what was compiled for arguments of the same shapes, and looks at nothing else.

    Torch itself checks at every call all that the compiled code relies on, every parameter included, which takes as
    long as the arithmetic of a small update (70 us for DQN's). Here that cannot change: modules keep their parameters.
    """

    def __init__(self, compiled: Any, function: Callable) -> None:
        super().__init__(compiled, function)
        torch._dynamo.config.enable_aot_compile = True
        self.ready: dict[tuple, Callable] = {}

    def __call__(self, *arguments: Any) -> Any:
        if self.failed:
            return self.function(*arguments)
        key = tuple(map(signature, arguments))
        if key not in self.ready:
            try:
                # Torch's key for whole graphs holds a random number here: they would pile up in the cache, never found.
                with torch._functorch.config.patch(enable_autograd_cache=False):
                    self.ready[key] = self.compiled.aot_compile((arguments, {})).fn
            except RuntimeError as error:  # all that a compiler raises; nothing was computed yet
                return self.give_up(error, arguments)
        return self.ready[key](*arguments)


def signature(argument: Any) -> object:
    if isinstance(argument, nn.Module):
        return id(argument)
    return tuple((leaf.shape, leaf.dtype) for leaf in tree_leaves(argument))


def own_code(function: Callable) -> FunctionType:
    """Copies a function, with a code object of its own.

    Torch keeps compiled variants by code object, tries them one after the other and gives up after eight: without
    this, the ninth agent of a process would fail, and every one before it would slow down those after.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(NUMBERS)}")
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
