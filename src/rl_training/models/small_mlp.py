"""A network of two small hidden layers as one operator: on a GPU, one kernel forward and one back.

Called layer by layer, such a network spends its time writing activations to memory and reading them again. Under `vmap`,
the networks of several members are one call, too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

WIDTHS = (16, 32, 64)  # of hidden layers
MOST = {"float32": (31, 16), "tf32": (127, 64), "bf16": (127, 64)}  # inputs and outputs that fit on chip
PROGRAMS = 264  # of the backward kernel: two for each of the 132 multiprocessors of an H100 or H200, or one per member
ROWS = 64  # of a block
FEW, FEW_ROWS = 8192, 32  # on the way back smaller ones below so many: else multiprocessors would have nothing to do
log = logging.getLogger(__name__)


def fits(weights: Sequence[Tensor], activation: str, products: str) -> bool:
    """Says if the kernels support a network with an activation, rounding of `products`, and [out, in] weights.

    Those of several members are [member, out, in].
    """
    inputs, outputs = MOST[products]
    return (
        len(weights) == 3
        and activation in ("tanh", "relu")
        and all(weight.shape[-2] in WIDTHS for weight in weights[:2])
        and weights[0].shape[-1] <= inputs
        and weights[2].shape[-2] <= outputs
    )


def run_here(networks: Sequence[tuple[Sequence[Tensor], str, str]]) -> bool:
    """Builds kernels of networks, tuples (parameters, activation, products), for their GPU; returns True on success.

    If one cannot be built, logs why and returns False. They are built in parallel threads: most of the work is done
    outside of Python.
    """
    variants = dict.fromkeys(
        (tuple(p.shape for p in parameters), activation, products, num_rows, wants_x, parameters[0].device)
        for parameters, activation, products in networks
        for num_rows in (FEW, 2 * FEW)  # blocks of either size
        for wants_x in (True, False)
    )
    try:
        with ThreadPoolExecutor(max(len(variants), 1)) as pool:
            list(pool.map(build_kernels, variants))
    except (ImportError, RuntimeError) as error:  # no Triton, or too little memory on the chip
        reason = str(error).strip().partition(chr(10))[0]
        log.warning("small networks are computed layer by layer, slower, because kernels cannot be built: %s", reason)
        return False
    return True


def build_kernels(variant: tuple) -> None:
    """Builds the kernels of one variant, (shapes, activation, products, rows, wants_x, device), by calls on zeros."""
    shapes, activation, products, num_rows, wants_x, device = variant
    weights = [torch.zeros(shape, device=device) for shape in shapes]
    *members, _, inputs = shapes[0]
    each = max(num_rows // math.prod(members) // 16, 1) * 16  # rows; Triton builds others for no multiple of 16
    x = torch.zeros(*members, each, inputs, device=device)
    out = small_mlp(x, *weights, activation, products)
    small_mlp_backward(out, x, *weights, activation, products, wants_x)


@torch.library.custom_op("rl_training::small_mlp", mutates_args=())
def small_mlp(
    x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, w3: Tensor, b3: Tensor, activation: str, products: str
) -> Tensor:
    """Returns a three-layer perceptron's output [batch, outputs] for rows [batch, inputs] and weights [out, in].

    Every tensor may have a first dimension [member]: then each member's rows go through a network of its own.
    `products` says how a GPU rounds factors; float32 takes three products of rounded ones, almost as exact as float32.
    On the CPU nothing is rounded: there the operator is the reference that tests compare the kernels with.
    """
    if x.is_cuda:
        from rl_training.models import small_mlp_kernels

        return small_mlp_kernels.forward(x, w1, b1, w2, b2, w3, b3, activation=activation, products=products, rows=ROWS)
    return hidden(x, w1, b1, w2, b2, activation)[1] @ w3.mT + b3.unsqueeze(-2)


@torch.library.custom_op("rl_training::small_mlp_backward", mutates_args=())
def small_mlp_backward(
    grad: Tensor,
    x: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    w3: Tensor,
    b3: Tensor,
    activation: str,
    products: str,
    wants_x: bool,
) -> tuple[Tensor, Tensor]:
    """Returns [part, parameter], whose sum over parts is the flat gradient of all parameters, and the gradient of `x`.

    `grad` is that of the output; the gradient of `x` is empty unless `wants_x`. With members, they come first.
    """
    if x.is_cuda:
        from rl_training.models import small_mlp_kernels

        return small_mlp_kernels.backward(
            grad, x, w1, b1, w2, b2, w3, b3, activation=activation, products=products, wants_x=wants_x,
            programs=num_parts(x), rows=block_rows(x),
        )  # fmt: skip
    h1, h2 = hidden(x, w1, b1, w2, b2, activation)
    dz2 = grad @ w3 * slope(h2, activation)
    dz1 = dz2 @ w2 * slope(h1, activation)
    parts = [dz1.mT @ x, dz1.sum(-2), dz2.mT @ h1, dz2.sum(-2), grad.mT @ h2, grad.sum(-2)]
    flat = torch.cat([part.flatten(x.ndim - 2) for part in parts], -1)
    return flat.unsqueeze(-2), dz1 @ w1 if wants_x else x.new_empty(0)


def hidden(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    function = torch.tanh if activation == "tanh" else torch.relu
    h1 = function(x @ w1.mT + b1.unsqueeze(-2))
    return h1, function(h1 @ w2.mT + b2.unsqueeze(-2))


def slope(h: Tensor, activation: str) -> Tensor:
    """Returns the activation's derivative, computed from the activation's values `h`."""
    return 1 - h * h if activation == "tanh" else (h > 0).to(h.dtype)


def block_rows(x: Tensor) -> int:
    return FEW_ROWS if math.prod(x.shape[:-1]) <= FEW else ROWS


def num_parts(x: Tensor) -> int:
    """Returns how many programs of the backward kernel share the rows of one network."""
    if not x.is_cuda:
        return 1
    return min(-(-x.shape[-2] // block_rows(x)), max(PROGRAMS // math.prod(x.shape[:-2]), 1))


@small_mlp.register_fake
def _(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty(*x.shape[:-1], arguments[4].shape[-2])


@small_mlp_backward.register_fake
def _(grad: Tensor, x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    *parameters, _, _, wants_x = arguments
    sizes = row_sizes(x, parameters)
    partial = x.new_empty(*x.shape[:-2], num_parts(x), sum(sizes))
    return partial, x.new_empty(x.shape) if wants_x else x.new_empty(0)


def row_sizes(x: Tensor, parameters: Sequence[Tensor]) -> list[int]:
    """Returns how many numbers of each parameter are those of one network."""
    return [math.prod(parameter.shape[x.ndim - 2 :]) for parameter in parameters]


def keep_inputs(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.activation, ctx.products = inputs
    ctx.save_for_backward(*tensors)


def differentiate(ctx: Any, grad: Tensor) -> tuple:
    x, *parameters = ctx.saved_tensors
    wants_x = ctx.needs_input_grad[0]
    partial, grad_x = small_mlp_backward(grad, x, *parameters, ctx.activation, ctx.products, wants_x)
    flat = partial.sum(-2).split(row_sizes(x, parameters), -1)
    grads = [part.view_as(parameter) for part, parameter in zip(flat, parameters, strict=True)]
    return grad_x if wants_x else None, *grads, None, None


small_mlp.register_autograd(differentiate, setup_context=keep_inputs)


def members_first(info: Any, in_dims: Sequence[int | None], arguments: Sequence[Any]) -> Iterator[Any]:
    """Yields arguments of an operator under `vmap` with members as their first dimension, also what all members share."""
    for dim, argument in zip(in_dims, arguments, strict=True):
        if not isinstance(argument, Tensor):
            yield argument
        elif dim is None:
            yield argument.expand(info.batch_size, *argument.shape)
        else:
            yield argument.movedim(dim, 0)


@small_mlp.register_vmap
def _(info: Any, in_dims: tuple, *arguments: Any) -> tuple[Tensor, int]:
    return small_mlp(*members_first(info, in_dims, arguments)), 0


@small_mlp_backward.register_vmap
def _(info: Any, in_dims: tuple, *arguments: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, int | None]]:
    wants_x = arguments[-1]
    return small_mlp_backward(*members_first(info, in_dims, arguments)), (0, 0 if wants_x else None)
