"""What else a process does must not change what is built and learned here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

HOST = torch.device("cpu")
LEARNING: list[int] = []  # the thread of every call of `learn` that has not returned; callbacks may nest them


def is_learning() -> bool:
    """Whether this thread is inside a call of `learn`, as a callback is."""
    return threading.get_ident() in LEARNING


@contextmanager
def one_thread() -> Iterator[None]:
    """Refuses to learn beside another thread that learns: random numbers and settings of torch are the process's."""
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


@contextmanager
def plain_torch() -> Iterator[None]:
    """Float32, the host, gradients and full precision, whatever the caller has set; all as before afterwards."""
    dtype = torch.get_default_dtype()
    with ExitStack() as stack:
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
        yield


@contextmanager
def threads_and_precision(threads: int, *, tf32: bool) -> Iterator[None]:
    """So many threads and such matrix products; as before afterwards."""
    before, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision(products)
