"""What a process has set for torch must not change what is built and learned here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

HOST = torch.device("cpu")


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
