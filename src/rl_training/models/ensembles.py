"""Several networks of one shape as one batched network, and critics made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.core import Space, Tree
from rl_training.models.encoders import build_encoder
from rl_training.models.mlp import ACTIVATIONS
from rl_training.models.onednn_linear import batched_products

Members = Tensor | slice | None  # which networks of an ensemble to ask; None: all


class EnsembleMLP(nn.Module):
    """An ensemble of `num` perceptrons, [batch, inputs] to [num, batch, outputs], with one product per layer for all.

    Hidden layers are dropped out, then normalised, then activated (DroQ's order, arXiv:2110.02034), where asked for.
    """

    def __init__(
        self,
        num: int,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        activation_fn: str = "relu",
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[activation_fn], dropout
        widths = [inputs, *hidden, outputs]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.scales, self.shifts = nn.ParameterList(), nn.ParameterList()
        for i, o in pairwise(widths):
            bound = 1 / math.sqrt(i)  # as torch starts its linear layers
            self.weights.append(nn.Parameter(torch.empty(num, i, o).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(num, 1, o).uniform_(-bound, bound)))
        for width in hidden if layer_norm else ():
            self.scales.append(nn.Parameter(torch.ones(num, 1, width)))
            self.shifts.append(nn.Parameter(torch.zeros(num, 1, width)))

    def forward(self, x: Tensor, members: Members = None, *, train: bool = True) -> Tensor:
        for layer in self.layers(x, members, train=train):
            x = layer
        return x

    def layers(self, x: Tensor, members: Members = None, *, train: bool = True) -> Iterator[Tensor]:
        """Yields every layer's output [num, batch, width], the last without activation; dropout acts only if `train`.

        With `members`, network numbers or a slice, it has only those networks.
        """
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = products(x, select(weight, members), select(bias, members))
            if index < last:
                if self.dropout and train:
                    x = F.dropout(x, self.dropout)
                if len(self.scales):
                    scale, shift = select(self.scales[index], members), select(self.shifts[index], members)
                    x = F.layer_norm(x, x.shape[-1:]) * scale + shift
                x = self.activation(x)
            yield x


def select(parameter: Tensor, members: Members) -> Tensor:
    """Returns the entries of a parameter [num, ...] for the networks `members`, their numbers or a slice.

    For None it returns `parameter` itself, because slicing would copy its gradient.
    """
    return parameter if members is None else parameter[members]


def products(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns x @ weight + bias, [num, batch, outputs], for weight [num, inputs, outputs] and bias [num, 1, outputs].

    `x` is [num, batch, inputs], or [batch, inputs] for all networks alike.
    """
    if weight.shape[-1] == 1:  # matrix products with one column are six times slower than a sum
        return (x * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
    # Not baddbmm, which writes the biases first: the compiler adds them together with the activation.
    return (batched_products(x.expand(len(weight), -1, -1), weight) + bias).to(
        x.dtype
    )  # also where products are rounded


class Critics(nn.Module):
    """An ensemble of critics behind one shared encoder, which maps observations and actions to values."""

    def __init__(
        self, obs: Space, action_size: int, build_net: Callable[[int], EnsembleMLP], encoder: str | None = None
    ) -> None:
        super().__init__()
        self.encoder = build_encoder(obs, factory=encoder, ortho_init=False)
        self.net = build_net(self.encoder.features_dim + action_size)

    def forward(self, obs: Tree, action: Tensor, members: Members = None, *, train: bool = True) -> Tensor:
        """Returns [critic, batch, outputs] for normalised observations and actions [batch, size] in [-1, 1].

        With `members`, critics' numbers or a slice, it asks only those critics.
        """
        return self.read(self.encode(obs), action, members, train=train)

    def encode(self, obs: Tree) -> Tensor:
        """Returns the features of normalised observations, one vector for every row."""
        return self.encoder(obs)

    def read(self, features: Tensor, action: Tensor, members: Members = None, *, train: bool = True) -> Tensor:
        """Returns [critic, batch, outputs], as for observations, for features from `encode`."""
        return self.net(torch.cat([features, action], -1), members, train=train)

    def of_several(self, obs: Tree, action: Tensor, members: Members = None, *, train: bool = True) -> Tensor:
        """Returns [critic, batch, several, outputs] for normalised observations and actions [batch, several, size].

        Observations, one for the `several` actions of a row, are encoded once. With `members`, numbers or a slice,
        it asks only those critics.
        """
        features = self.encode(obs).unsqueeze(1).expand(-1, action.shape[1], -1)
        joined = torch.cat([features, action], -1).flatten(0, 1)
        return self.net(joined, members, train=train).unflatten(1, action.shape[:2])

    def activations(self, obs: Tree, action: Tensor) -> Iterator[Tensor]:
        """Yields every hidden layer's output as [batch, critics * units], for normalised observations and actions."""
        layers = list(self.net.layers(torch.cat([self.encode(obs), action], -1), train=False))
        yield from (layer.transpose(0, 1).flatten(1) for layer in layers[:-1])
