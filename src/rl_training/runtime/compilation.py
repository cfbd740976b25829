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
from rl_training.functional.onednn_products import LEAST, pays
from rl_training.runtime.cache_folder import keep_compiled_code
from rl_training.runtime.compiler_shortcuts import nothing_to_save, take_shortcuts
from rl_training.runtime.cpp_builds import Build, build_in_background
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.garbage import uncollected
from rl_training.runtime.vector_instructions import choose_vector_instructions

MAX_BLOCK = 20  # updates in one CUDA graph
NUMBERS = count()
Precision = Literal["float32", "tf32", "bf16"]
UpdateStep = Callable[[Any, Any], Metrics]  # of the experience's storage and one draw from it
UpdateBlock = Callable[[Any], Metrics]  # of the storage
REASONS: set[str] = set()  # for which something runs eagerly, as said once
log = logging.getLogger(__name__)


def block_size(a_pass: Pass) -> int:
    """Returns the number of updates of a pass to record as one CUDA graph: the largest that fits, 1 to `MAX_BLOCK`.

    It divides the rounds of the pass and, for every periodic method, divides its interval or is a multiple of it. A
    method that is due by env steps gives 1.
    """

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
    before: Callable[[], None] | None = None,
) -> UpdateStep:
    """Returns a function of an experience's storage and a draw: it gathers a batch, learns from it and returns metrics.

    A draw holds the random numbers or row numbers of one batch; `methods` are the names of the algorithm's methods that
    take the batch. If `compiled`, all of it is one graph; if the storage is on another device, only learning is, and
    the batch is copied. With bf16, matrix products are rounded to it; parameters, losses and optimizers stay in
    float32. `before` is called before each set of argument shapes is compiled.
    """
    methods_to_call = [getattr(algorithm, method) for method in methods]

    def products() -> Any:
        # Without a cache: an optimizer's step in the middle changes the weights that were rounded.
        return (
            torch.autocast(device.type, torch.bfloat16, cache_enabled=False) if precision == "bf16" else nullcontext()
        )

    def learn(batch: Weighted) -> Step:
        batch = algorithm.augment(batch)
        with products():
            results = [method(batch) for method in methods_to_call]
        metrics = {name: value for result in results for name, value in result.metrics.items()}
        return Step(metrics, {name: value for result in results for name, value in result.rows.items()})

    across = experience.device.type != device.type
    run = compile_graph(learn, device, before, learns=True) if compiled and across else learn

    def update(storage: Any, draw: Any) -> Metrics:
        batch = experience.gather(storage, draw)
        there = tree_map(lambda x: x.to(device), batch) if across else batch
        step = run(there)
        rows = tree_map(lambda x: x.to(experience.device), step.rows) if across else step.rows
        experience.feedback(storage, batch, rows)
        return step.metrics | experience.describe(there, step.rows)

    return compile_graph(update, device, before, learns=True) if compiled and not across else update


def record_block(steps: Sequence[UpdateStep], experience: SampledExperience, batch_size: int) -> UpdateBlock:
    """Returns a function of the storage that draws a batch for each update in `steps` and runs all as one CUDA graph.

    The function returns each metric's mean over the updates. The storage of its first calls is recorded by address:
    later calls must pass the same tensors.
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


def compile_graph(
    function: Callable, device: torch.device, before: Callable[[], None] | None = None, *, learns: bool = False
) -> Callable:
    """Returns the function compiled into one graph; each new set of argument shapes is compiled at its first call.

    Random numbers are drawn as eager code draws them, so compiled and eager runs agree up to rounding, and so do one
    block of eight steps and eight single steps. On the CPU the calls between kernels are C++, too. If the compiler
    fails, the code runs eagerly, and a warning gives the reason once. Compiled code is kept on disk for later runs.
    `before` is called before each compilation. With `learns`, large products may be rounded in another order; code that
    acts gives a row the same numbers however many others act with it.
    """

    def run(*arguments: Any) -> Any:
        return function(*arguments)

    keep_compiled_code()
    with uncollected():  # the compiler is a thousand modules to import
        end_workers_at_exit()
        torch._dynamo.config.trace_autograd_ops = True  # gradients are part of the graph
        options = compiler_options(device)
        if learns and device.type == "cpu" and pays(LEAST, 1, 1) and torch.__version__.startswith("2.13"):
            from rl_training.runtime.onednn_pass import OneDNNProducts  # slow to import; knows this torch alone

            options["post_grad_custom_post_pass"] = OneDNNProducts()
        compiled = torch.compile(own_code(run), fullgraph=True, dynamic=False, options=options)
    ahead = device.type == "cpu" and hasattr(compiled, "aot_compile")
    return ByShape(compiled, function, before) if ahead else OrEager(compiled, function)


@cache
def end_workers_at_exit() -> None:
    """Registers an exit handler that kills the compiler's worker processes, which torch would wait for."""
    import_module("torch._inductor.async_compile")  # registers torch's own handler, which is then called after ours
    atexit.register(end_workers)


def end_workers() -> None:
    """Kills the compiler's worker processes; if asked to end, they would finish starting first, which takes seconds."""
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
        if hasattr(import_module("torch._inductor.config"), "cpp_cache_precompile_headers"):
            options["cpp_cache_precompile_headers"] = False  # they take 4.8 s, and save 1.3 s per graph
        options["cpp_wrapper_build_separate"] = True  # kernels and the calls between them, side by side
        options["guard_filter_fn"] = portable_guards
    else:
        options["loop_ordering_after_fusion"] = False  # torch 2.11 fails on SAC's update with it
        options["combo_kernels"] = True  # small kernels that do not wait for each other become one
        options["force_pointwise_cat"] = True  # gradients are put in a row by one kernel, not by one for each
    return options


def portable_guards(guards: Sequence[Any]) -> list[bool]:
    """Returns which checks of compiled code are kept: not those of `vmap` that code compiled ahead of time cannot have.

    They look whether functions are still the same objects, and whether torch was taught a new kind of tree.
    """
    refused = {
        "CLASS_MATCH",
        "CLOSURE_MATCH",
        "DICT_VERSION",
        "FUNCTION_MATCH",
        "ID_MATCH",
        "MODULE_MATCH",
        "NN_MODULE",
    }
    return [refused.isdisjoint((guard.guard_type, *guard.derived_guard_types)) for guard in guards]


class OrEager:
    """A compiled function that, once compiling has failed, logs a warning and calls the original function eagerly.

    A mistake in the original function is not hidden: called eagerly, it raises its own error.
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

    def give_up(self, error: Exception, arguments: tuple) -> Any:
        result = self.function(*arguments)
        self.failed = True
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if reason not in REASONS:
            REASONS.add(reason)
            log.warning(
                "compiling failed, so the code runs eagerly from here on, with the same numbers up to rounding, slower: %s",
                reason,
            )
        return result


class ByShape(OrEager):
    """A compiled function with one variant for each set of argument shapes and types, and no other checks per call.

    Torch itself checks at every call all that the compiled code relies on, every parameter included, which takes as
    long as the arithmetic of a small update (70 us for DQN's). Here that cannot change: modules keep their parameters.
    """

    def __init__(self, compiled: Any, function: Callable, before: Callable[[], None] | None = None) -> None:
        super().__init__(compiled, function)
        torch._dynamo.config.enable_aot_compile = True
        self.before = before
        self.begun: dict[tuple, tuple[Callable, list[Build]] | RuntimeError | OSError] = {}
        self.ready: dict[tuple, Callable] = {}

    def begin(self, *arguments: Any) -> None:
        """Traces a call with such arguments and starts the C++ compiler, without waiting; nothing is called.

        An error of the compiler is kept for the first call.
        """
        key = tuple(map(signature, arguments))
        if self.failed or key in self.begun or key in self.ready:
            return
        try:
            choose_vector_instructions()
            take_shortcuts()
            # Torch's key for whole graphs holds a random number here: they would pile up in the cache, never found.
            without_key = torch._functorch.config.patch(enable_autograd_cache=False)
            with without_key, uncollected(), nothing_to_save(), build_in_background() as builds:
                self.begun[key] = self.compiled.aot_compile((arguments, {})).fn, builds
        except (RuntimeError, OSError) as error:  # all that a compiler raises
            self.begun[key] = error

    def finish(self, key: tuple) -> Callable:
        """Returns the compiled function of a call that `begin` has traced; raises the error if compiling failed."""
        begun = self.begun.pop(key)  # torch looks through this object when it traces others, and cannot pickle a build
        if isinstance(begun, RuntimeError | OSError):
            raise begun
        compiled, builds = begun
        for build in builds:
            build.wait()
        return compiled

    def __call__(self, *arguments: Any) -> Any:
        if self.failed:
            return self.function(*arguments)
        key = tuple(map(signature, arguments))
        if key not in self.ready:
            if self.before is not None:
                self.before()
            self.begin(*arguments)
            try:
                self.ready[key] = self.finish(key)
            except (RuntimeError, OSError) as error:  # nothing was computed yet
                return self.give_up(error, arguments)
        return self.ready[key](*arguments)


def signature(argument: Any) -> object:
    if isinstance(argument, nn.Module):
        return id(argument)
    return tuple((leaf.shape, leaf.dtype) for leaf in tree_leaves(argument))


def own_code(function: Callable) -> FunctionType:
    """Returns a copy of a function with a code object of its own.

    Torch keeps compiled variants by code object, tries them one after the other and gives up after eight: without a
    copy, the ninth agent of a process would fail, and every agent would slow down the later ones.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(NUMBERS)}")
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
