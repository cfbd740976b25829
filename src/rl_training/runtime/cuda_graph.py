"""CUDA graphs: a call's kernels are recorded once and replayed, so that the host says go once instead of hundreds of times."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from rl_training.core import tree_leaves, tree_map
from rl_training.runtime.transfer import copy_all

WARM_UP = 3  # calls before recording: compilation, tuning and lazily built handles must not be part of the graph
log = logging.getLogger(__name__)


OutputT = TypeVar("OutputT")


@contextmanager
def no_collection() -> Iterator[None]:
    """Puts garbage collection off: an old graph that is freed while another is recorded spoils it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def end_failed_recording(device: torch.device, generators: Sequence[torch.Generator]) -> None:
    """Lets random numbers be drawn again: a failed recording leaves generators in it until another one has ended."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        torch.zeros(1, device=device)


class CudaGraph(Generic[OutputT]):
    """A pure function of GPU tensors: called three times, then recorded as a CUDA graph, which later calls replay.

    Other tensors that it reads must keep their addresses. Random numbers continue as in separate calls. If the function
    cannot be recorded, a warning is logged and every call runs it directly.
    """

    def __init__(self, function: Callable[..., OutputT], generators: Sequence[torch.Generator] = ()) -> None:
        """Stores the function, and the random generators that it draws from besides the device's own."""
        self.function, self.generators = function, generators
        self.calls, self.refused = 0, False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []
        self.outputs: OutputT

    def __call__(self, *inputs: Any) -> OutputT:
        self.calls += 1
        if self.calls <= WARM_UP:
            return self.aside(inputs)
        if self.graph is None and not self.refused:
            self.record(inputs)
        if self.graph is None:
            return self.function(*inputs)
        copy_all(self.inputs, tree_leaves(inputs))
        self.graph.replay()
        return tree_map(Tensor.clone, self.outputs)

    def aside(self, inputs: tuple) -> OutputT:
        """Calls the function on a new CUDA stream, as recording does, and returns its outputs."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outputs = self.function(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return outputs

    def record(self, inputs: tuple) -> None:
        static = tree_map(Tensor.clone, inputs)
        self.inputs = list(tree_leaves(static))
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # Recordings of one stream share room for matrix products: what will run beside others is recorded beside them.
        current = torch.cuda.current_stream()
        aside = None if current == torch.cuda.default_stream() else current
        try:
            with no_collection(), torch.cuda.graph(graph, stream=aside):
                self.outputs = self.function(*static)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            log.warning("a CUDA graph could not be recorded, so steps are called one by one, slower: %s", reason)
            self.refused = True
            end_failed_recording(current.device, self.generators)
        else:
            self.graph = graph
        # Recording sets the generators' places to zero on its own stream: on a busy GPU that could come after the next
        # replay has set them, which would then draw the run's first numbers again.
        torch.cuda.synchronize()
