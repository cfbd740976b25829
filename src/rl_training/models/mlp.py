"""Multi-layer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
}


def activation(name: str) -> nn.Module:
    return ACTIVATIONS[name]()


def linear(inputs: int, outputs: int, gain: float | None) -> nn.Linear:
    """A linear layer; with a gain it starts orthogonal and without bias, otherwise as torch does."""
    layer = nn.Linear(inputs, outputs)
    if gain is not None:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


def mlp(
    inputs: int,
    hidden: Sequence[int],
    outputs: int | None = None,
    *,
    activation_fn: str = "tanh",
    ortho_init: bool = True,
    output_gain: float = 1.0,
) -> nn.Sequential:
    """Hidden layers with an activation each, then, if `outputs` is given, a linear layer."""
    sizes = [inputs, *hidden]
    layers: list[nn.Module] = []
    for size, following in pairwise(sizes):
        layers += [linear(size, following, math.sqrt(2) if ortho_init else None), activation(activation_fn)]
    if outputs is not None:
        layers.append(linear(sizes[-1], outputs, output_gain if ortho_init else None))
    return nn.Sequential(*layers)
