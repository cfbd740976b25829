from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest_plugins = ["tests.skip_summary"]

if TYPE_CHECKING:
    import torch


def pytest_configure(config: pytest.Config) -> None:
    """Not in the process of xdist that only hands tests out: its workers start after it, and need not wait for torch."""
    if config.getoption("dist", "no") != "no":
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start programs in the background with it ignored
    # Torch's compiler believes what the processor says of itself, where it would first compile a program for each set of
    # instructions: 11 s of CPU time with an empty cache.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    import torch
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    torch.set_num_threads(1)
    # Tests leave nothing in a home. Torch's own folder, named by nobody, would be replaced by one there.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{default_cache_dir()}_tests")


@pytest.fixture
def compiled_indeed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where compiling fails, a run goes on eagerly; here that is a failure."""
    from rl_training.runtime import compilation

    monkeypatch.setattr(compilation, "REASONS", set())
    yield
    assert not compilation.REASONS


@pytest.fixture
def traced(compiled_indeed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling ends with the graph, differentiated and run as it is: no code is generated, which takes most of the time."""
    import torch

    from rl_training.runtime import collector, compilation, executors, native_collector

    def trace_graph(function: Callable, device: torch.device, before: Callable | None = None, **_: bool) -> Callable:
        torch._dynamo.config.trace_autograd_ops = True

        def run(*arguments: Any) -> Any:
            return function(*arguments)

        graph = torch.compile(compilation.own_code(run), fullgraph=True, dynamic=False, backend="aot_eager")
        return compilation.OrEager(graph, function)

    for module in (compilation, collector, native_collector, executors):
        monkeypatch.setattr(module, "compile_graph", trace_graph)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native steps are compiled by twos: the loop that makes blocks of eight, and a quarter of the code."""
    from rl_training.runtime import native_collector

    monkeypatch.setattr(native_collector, "BLOCK", 2)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What the library has logged since the last call, a message a line."""

    def since() -> str:
        messages = "".join(f"{message}\n" for message in caplog.messages)
        caplog.clear()
        return messages

    return since
