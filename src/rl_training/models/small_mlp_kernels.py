"""The kernels behind `small_mlp`, in Triton: rows in blocks, weights and activations on chip.

A block of rows goes through the whole network without its activations ever being written. The backward pass computes
them again, which is faster than reading them. Every program sums the gradients of its rows in registers and writes
one row of `partial`, in the order of the parameters. Networks of several members [member, ...] are a second dimension
of the grid: `STACKED` moves every pointer to the program's member, and without it the code is that for one network.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def activate(z, ACTIVATION: tl.constexpr, PRODUCTS: tl.constexpr):
    if ACTIVATION == "relu":
        h = tl.maximum(z, 0.0)
    elif PRODUCTS == "float32":
        h = 2 * tl.sigmoid(2 * z) - 1
    else:  # one instruction, as exact as the rounded factors of the next product
        h = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [z], dtype=tl.float32, is_pure=True, pack=1)
    return h


@triton.jit
def slope(h, ACTIVATION: tl.constexpr):
    """Returns the activation's derivative, computed from the activation's values `h`."""
    return tl.where(h > 0, 1.0, 0.0) if ACTIVATION == "relu" else 1 - h * h


@triton.jit
def to_tf32(x):
    """Rounds to the nearest number of ten bits after the point; products alone would truncate."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def product(a, b, PRODUCTS: tl.constexpr):
    """Multiplies matrices with factors rounded to bf16 or tf32, or float32 as three products; sums are float32."""
    if PRODUCTS == "bf16":
        c = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRODUCTS == "tf32":
        c = tl.dot(to_tf32(a), to_tf32(b), input_precision="tf32")
    else:
        c = tl.dot(a, b, input_precision="tf32x3")
    return c


@triton.jit
def load_transposed(weight, OUT: tl.constexpr, IN: tl.constexpr, OUT_PAD: tl.constexpr, IN_PAD: tl.constexpr):
    """Loads an [out, in] weight as [in, out], with zeros where padded."""
    i, o = tl.arange(0, IN_PAD)[:, None], tl.arange(0, OUT_PAD)[None, :]
    return tl.load(weight + o * IN + i, mask=(i < IN) & (o < OUT), other=0.0)


@triton.jit
def load_bias(bias, OUT: tl.constexpr, OUT_PAD: tl.constexpr):
    o = tl.arange(0, OUT_PAD)
    return tl.load(bias + o, mask=o < OUT, other=0.0)[None, :]


@triton.jit
def load_rows(x, row, num_rows, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr):
    column = tl.arange(0, WIDTH_PAD)[None, :]
    inside = (row < num_rows)[:, None] & (column < WIDTH)
    return tl.load(x + row.to(tl.int64)[:, None] * WIDTH + column, mask=inside, other=0.0)


@triton.jit
def forward_kernel(
    x_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, out_ptr, num_rows,
    INPUTS: tl.constexpr, HIDDEN1: tl.constexpr, HIDDEN2: tl.constexpr, OUTPUTS: tl.constexpr,
    INPUTS_PAD: tl.constexpr, OUTPUTS_PAD: tl.constexpr, ROWS: tl.constexpr,
    ACTIVATION: tl.constexpr, PRODUCTS: tl.constexpr, STACKED: tl.constexpr,
):  # fmt: skip
    if STACKED:
        member = tl.program_id(1).to(tl.int64)
        x_ptr += member * num_rows * INPUTS
        w1_ptr += member * (HIDDEN1 * INPUTS)
        b1_ptr += member * HIDDEN1
        w2_ptr += member * (HIDDEN2 * HIDDEN1)
        b2_ptr += member * HIDDEN2
        w3_ptr += member * (OUTPUTS * HIDDEN2)
        b3_ptr += member * OUTPUTS
        out_ptr += member * num_rows * OUTPUTS
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = load_rows(x_ptr, row, num_rows, INPUTS, INPUTS_PAD)
    z = product(x, load_transposed(w1_ptr, HIDDEN1, INPUTS, HIDDEN1, INPUTS_PAD), PRODUCTS)
    h = activate(z + load_bias(b1_ptr, HIDDEN1, HIDDEN1), ACTIVATION, PRODUCTS)
    z = product(h, load_transposed(w2_ptr, HIDDEN2, HIDDEN1, HIDDEN2, HIDDEN1), PRODUCTS)
    h = activate(z + load_bias(b2_ptr, HIDDEN2, HIDDEN2), ACTIVATION, PRODUCTS)
    z = product(h, load_transposed(w3_ptr, OUTPUTS, HIDDEN2, OUTPUTS_PAD, HIDDEN2), PRODUCTS)
    out = z + load_bias(b3_ptr, OUTPUTS, OUTPUTS_PAD)
    column = tl.arange(0, OUTPUTS_PAD)[None, :]
    inside = (row < num_rows)[:, None] & (column < OUTPUTS)
    tl.store(out_ptr + row.to(tl.int64)[:, None] * OUTPUTS + column, out, mask=inside)


@triton.jit
def backward_kernel(
    grad_ptr, x_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, partial_ptr, grad_x_ptr, num_rows,
    INPUTS: tl.constexpr, HIDDEN1: tl.constexpr, HIDDEN2: tl.constexpr, OUTPUTS: tl.constexpr,
    INPUTS_PAD: tl.constexpr, OUTPUTS_PAD: tl.constexpr, ROWS: tl.constexpr,
    ACTIVATION: tl.constexpr, PRODUCTS: tl.constexpr, WANTS_X: tl.constexpr, STACKED: tl.constexpr,
):  # fmt: skip
    if STACKED:
        member = tl.program_id(1).to(tl.int64)
        grad_ptr += member * num_rows * OUTPUTS
        x_ptr += member * num_rows * INPUTS
        w1_ptr += member * (HIDDEN1 * INPUTS)
        b1_ptr += member * HIDDEN1
        w2_ptr += member * (HIDDEN2 * HIDDEN1)
        b2_ptr += member * HIDDEN2
        w3_ptr += member * (OUTPUTS * HIDDEN2)
        grad_x_ptr += member * num_rows * INPUTS
    w1 = load_transposed(w1_ptr, HIDDEN1, INPUTS, HIDDEN1, INPUTS_PAD)
    w2 = load_transposed(w2_ptr, HIDDEN2, HIDDEN1, HIDDEN2, HIDDEN1)
    w3 = load_transposed(w3_ptr, OUTPUTS, HIDDEN2, OUTPUTS_PAD, HIDDEN2)
    b1, b2 = load_bias(b1_ptr, HIDDEN1, HIDDEN1), load_bias(b2_ptr, HIDDEN2, HIDDEN2)
    input_column = tl.arange(0, INPUTS_PAD)[None, :]
    grad1 = tl.zeros([HIDDEN1, INPUTS_PAD], tl.float32)  # the column after the inputs is the bias's
    grad2 = tl.zeros([HIDDEN2, HIDDEN1], tl.float32)
    grad2_bias = tl.zeros([HIDDEN2, INPUTS_PAD], tl.float32)
    grad3 = tl.zeros([HIDDEN2, OUTPUTS_PAD], tl.float32)
    grad3_bias = tl.zeros([ROWS, OUTPUTS_PAD], tl.float32)
    for start in range(tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        # Ones beside the inputs: products with them are sums over rows. Rows beyond the end have no gradient.
        x = tl.where(input_column == INPUTS, 1.0, load_rows(x_ptr, row, num_rows, INPUTS, INPUTS_PAD))
        h1 = activate(product(x, w1, PRODUCTS) + b1, ACTIVATION, PRODUCTS)
        h2 = activate(product(h1, w2, PRODUCTS) + b2, ACTIVATION, PRODUCTS)
        grad = load_rows(grad_ptr, row, num_rows, OUTPUTS, OUTPUTS_PAD)
        grad3 += product(tl.trans(h2), grad, PRODUCTS)
        grad3_bias += grad
        dz = product(grad, tl.trans(w3), PRODUCTS) * slope(h2, ACTIVATION)
        grad2 += product(tl.trans(dz), h1, PRODUCTS)
        grad2_bias += product(tl.trans(dz), x, PRODUCTS)
        dz = product(dz, tl.trans(w2), PRODUCTS) * slope(h1, ACTIVATION)
        grad1 += product(tl.trans(dz), x, PRODUCTS)
        if WANTS_X:
            inside = (row < num_rows)[:, None] & (input_column < INPUTS)
            grad_x = product(dz, tl.trans(w1), PRODUCTS)
            tl.store(grad_x_ptr + row.to(tl.int64)[:, None] * INPUTS + input_column, grad_x, mask=inside)
    B1: tl.constexpr = HIDDEN1 * INPUTS
    W2: tl.constexpr = B1 + HIDDEN1
    B2: tl.constexpr = W2 + HIDDEN2 * HIDDEN1
    W3: tl.constexpr = B2 + HIDDEN2
    B3: tl.constexpr = W3 + OUTPUTS * HIDDEN2
    part = tl.program_id(0).to(tl.int64)
    if STACKED:
        part += tl.program_id(1).to(tl.int64) * tl.num_programs(0)
    mine = partial_ptr + part * (B3 + OUTPUTS)
    unit1, unit2 = tl.arange(0, HIDDEN1), tl.arange(0, HIDDEN2)
    output = tl.arange(0, OUTPUTS_PAD)
    place = tl.where(input_column < INPUTS, unit1[:, None] * INPUTS + input_column, B1 + unit1[:, None])
    tl.store(mine + place, grad1, mask=(input_column <= INPUTS) & (unit1[:, None] >= 0))
    tl.store(mine + W2 + unit2[:, None] * HIDDEN1 + unit1[None, :], grad2)
    place = B2 + unit2[:, None] + 0 * input_column
    tl.store(mine + place, grad2_bias, mask=(input_column == INPUTS) & (unit2[:, None] >= 0))
    place = W3 + output[None, :] * HIDDEN2 + unit2[:, None]
    tl.store(mine + place, grad3, mask=(output[None, :] < OUTPUTS) & (unit2[:, None] >= 0))
    tl.store(mine + B3 + output, tl.sum(grad3_bias, 0), mask=output < OUTPUTS)


def pad(size: int) -> int:
    """Returns the padded size: a power of two of at least 16, as Triton's products require."""
    return max(16, triton.next_power_of_2(size))


def constants(x: Tensor, *parameters: Tensor, activation: str, products: str, rows: int) -> dict[str, int | str]:
    w1, _, w2, _, w3, _ = parameters
    inputs, outputs = x.shape[-1], w3.shape[-2]
    return {
        "INPUTS": inputs,
        "HIDDEN1": w1.shape[-2],
        "HIDDEN2": w2.shape[-2],
        "OUTPUTS": outputs,
        "INPUTS_PAD": pad(inputs + 1),
        "OUTPUTS_PAD": pad(outputs),
        "ROWS": rows,
        "ACTIVATION": activation,
        "PRODUCTS": products,
        "STACKED": num_members(x) > 1,
    }


def num_members(x: Tensor) -> int:
    assert x.ndim <= 3
    return x.shape[0] if x.ndim == 3 else 1


def launch(kernel: Any, grid: tuple[int, int], *arguments: Any, **constants: Any) -> None:
    try:
        kernel[grid](*arguments, **constants, num_warps=4)
    except triton.TritonError as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def forward(x: Tensor, *parameters: Tensor, activation: str, products: str, rows: int) -> Tensor:
    """Returns the outputs [..., row, output] for rows [..., row, input]; members come first in all tensors, if at all."""
    x, *weights = (tensor.contiguous() for tensor in (x, *parameters))
    num_rows = x.shape[-2]
    out = x.new_empty(*x.shape[:-1], weights[4].shape[-2])
    chosen = constants(x, *weights, activation=activation, products=products, rows=rows)
    launch(forward_kernel, (triton.cdiv(num_rows, rows), num_members(x)), x, *weights, out, num_rows, **chosen)
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    *parameters: Tensor,
    activation: str,
    products: str,
    wants_x: bool,
    programs: int,
    rows: int,
) -> tuple[Tensor, Tensor]:
    """Returns [..., program, parameter], whose sum over programs is the flat gradient of all parameters, and that of `x`.

    `grad` is the output's gradient; that of `x` is empty unless `wants_x`. As many `programs` share each member's rows.
    """
    grad, x, *weights = (tensor.contiguous() for tensor in (grad, x, *parameters))
    members, num_rows = num_members(x), x.shape[-2]
    partial = x.new_empty(*x.shape[:-2], programs, sum(weight.numel() for weight in weights) // members)
    grad_x = torch.empty_like(x) if wants_x else x.new_empty(0)
    chosen = constants(x, *weights, activation=activation, products=products, rows=rows)
    arguments = (grad, x, *weights[:5], partial, grad_x, num_rows)
    launch(backward_kernel, (programs, members), *arguments, **chosen, WANTS_X=wants_x)
    return partial, grad_x
