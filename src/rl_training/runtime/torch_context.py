"""Protection from the process around a run: torch's settings, its random numbers, and other threads."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

HOST = torch.device("cpu")
P = ParamSpec("P")
R = TypeVar("R")
RandomState = dict[str, Tensor]  # of torch's own generators: the host's and, on a GPU, the device's
LEARNING: list[int] = []  # the thread of every call of `learn` that has not returned; callbacks may nest them


@contextmanager
def one_thread() -> Iterator[None]:
    """Marks this thread as learning in the block; raises ValueError if another thread of the process learns.

    Both would share torch's random numbers and settings. Calls in the same thread may be nested.
    """
    me = threading.get_ident()
    if any(other != me for other in LEARNING):
        raise ValueError(
            "learn() was called while an agent learns in another thread of this process, and they would share their random "
            "numbers: train one after the other, or in processes of their own"
        )
    LEARNING.append(me)
    try:
        yield
    finally:
        LEARNING.remove(me)


class plain_torch:  # noqa: N801  (used as a context and as a decorator)
    """A context that sets torch to float32, the CPU, gradients and no autocast, and restores the caller's settings.

    As a decorator, `@plain_torch()`, it costs about a microsecond where torch is set so already.
    """

    def __enter__(self) -> None:
        self.stack = change_settings()

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_plain():
                return function(*args, **kwargs)
            with plain_torch():
                return function(*args, **kwargs)

        return call


def is_plain() -> bool:
    return (
        torch.get_default_dtype() is torch.float32
        and torch.is_grad_enabled()
        and not torch.is_inference_mode_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.is_autocast_enabled("cuda")
        and torch.get_default_device() == HOST
    )


def change_settings() -> ExitStack:
    """Sets torch to float32, the CPU, gradients and no autocast; closing the returned stack restores the rest."""
    stack, dtype = ExitStack(), torch.get_default_dtype()
    if dtype is not torch.float32:
        torch.set_default_dtype(torch.float32)
        stack.callback(torch.set_default_dtype, dtype)
    if torch.get_default_device() != HOST:
        stack.enter_context(HOST)  # only then: it costs time in every call of torch
    if torch.is_inference_mode_enabled():
        stack.enter_context(torch.inference_mode(False))
    if not torch.is_grad_enabled():
        stack.enter_context(torch.enable_grad())
    for kind in ("cpu", "cuda"):
        if torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


@contextmanager
def threads_and_precision(threads: int, *, tf32: bool) -> Iterator[None]:
    """Sets torch's number of threads and precision of matrix products in the block, and restores both."""
    before, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision(products)


class OwnStream:
    """A stream of torch's random numbers that is used in blocks: draws in them do not change the numbers outside."""

    def __init__(self, seed: int) -> None:
        self.seed, self.saved, self.in_use = seed, RandomState(), False

    @contextmanager
    def used(self, device: torch.device) -> Iterator[None]:
        """Installs this stream's random numbers in the block, stores where they stop, and restores the caller's."""
        outside = random_state(device)
        install(self.state(device), device)
        self.in_use = True
        try:
            yield
        finally:
            self.saved, self.in_use = random_state(device), False
            install(outside, device)

    def state(self, device: torch.device) -> RandomState:
        """Returns the stream's random state on the CPU and, if the device is a GPU, also on that."""
        if self.in_use:
            return random_state(device)
        fresh = {"cpu": torch.Generator().manual_seed(self.seed).get_state()}
        if device.type == "cuda":
            fresh["cuda"] = torch.Generator(device).manual_seed(self.seed).get_state()
        return fresh | self.saved

    def load(self, state: RandomState, device: torch.device) -> None:
        """Stores a saved state for the next use; raises an error if torch's generators do not accept it."""
        torch.Generator().set_state(state["cpu"])
        if device.type == "cuda" and "cuda" in state:  # not where it was trained on the host until now
            torch.Generator(device).set_state(state["cuda"])
        self.saved = state


def random_state(device: torch.device) -> RandomState:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def install(state: RandomState, device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
