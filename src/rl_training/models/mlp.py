"""Multi-layer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
}


def linear(inputs: int, outputs: int, gain: float | None) -> nn.Linear:
    """A linear layer; with a gain it starts orthogonal and without bias, otherwise as torch does."""
    layer = nn.Linear(inputs, outputs)
    if gain is not None:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


class MLP(nn.Module):
    """Hidden layers with an activation each, then, if `outputs` is given, a linear layer.

    One module call for the whole network: acting on a few rows is bound by calls, not by arithmetic.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int | None = None,
        *,
        activation_fn: str = "tanh",
        ortho_init: bool = True,
        output_gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation_fn]
        self.num_hidden = len(hidden)
        self.features_dim = [inputs, *hidden][-1] if outputs is None else outputs
        gain = math.sqrt(2) if ortho_init else None
        layers = [linear(i, o, gain) for i, o in pairwise([inputs, *hidden])]
        if outputs is not None:
            layers.append(linear([inputs, *hidden][-1], outputs, output_gain if ortho_init else None))
        for index, layer in enumerate(layers):
            for name, parameter in layer.named_parameters():
                self.register_parameter(f"{name}{index}", parameter)

    def forward(self, x: Tensor) -> Tensor:
        parameters = tuple(self._parameters.values())  # one look-up for all layers
        for index in range(len(parameters) // 2):
            weight, bias = parameters[2 * index], parameters[2 * index + 1]
            assert weight is not None
            x = F.linear(x, weight, bias)
            if index < self.num_hidden:
                x = self.activation(x)
        return x
