"""Layers whose large products are computed by [oneDNN](../functional/onednn_products.py) on a CPU, where it is faster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.functional.onednn_products import AVAILABLE, Product, can_differentiate, multiply, pays


def learns_eagerly() -> bool:
    """Returns True in eager code that records gradients; acting does not, so its numbers never depend on how many act."""
    return not torch.compiler.is_compiling() and torch.is_grad_enabled()


def linear_products(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns `x @ weight.T + bias`, as `F.linear` does; large ones that are learned from by oneDNN if it is faster."""
    if learns_eagerly() and x.ndim == 2 and pays(len(x), x.shape[1], len(weight)) and can_differentiate(x, weight):
        return Product.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def batched_products(x: Tensor, weight: Tensor) -> Tensor:
    """Returns `torch.bmm(x, weight)`; large products that are learned from by oneDNN if it is faster."""
    if learns_eagerly() and pays(x.shape[1], x.shape[2], weight.shape[2]) and can_differentiate(x, weight):
        return BatchedProduct.apply(x, weight)
    return torch.bmm(x, weight)


class BatchedProduct(torch.autograd.Function):
    """The function `x @ weight` of float32 batches of matrices on the CPU, and its gradients, one product after another."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.stack([multiply(a, b.t()) for a, b in zip(x, weight, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (x, weight) = grad_outputs, ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        if torch.is_grad_enabled():  # gradients of gradients are wanted
            grad_x, grad_weight = torch.bmm(grad, weight.mT), torch.bmm(x.mT, grad)
            return grad_x if of_x else None, grad_weight if of_weight else None
        return (
            torch.stack([multiply(g, b) for g, b in zip(grad, weight, strict=True)]) if of_x else None,
            torch.stack([multiply(a.t(), g.t()) for a, g in zip(x, grad, strict=True)]) if of_weight else None,
        )


class OneDNNLinear(nn.Linear):
    """A linear layer for wide inputs, computed by oneDNN where that is possible: eager float32 matrices on the CPU."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (torch's name)
        if AVAILABLE and input.ndim == 2 and can_differentiate(input, self.weight):
            return Product.apply(input, self.weight, self.bias)
        return F.linear(input, self.weight, self.bias)
