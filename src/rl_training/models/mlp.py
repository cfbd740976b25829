"""Multi-layer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.core.noise import noise_like
from rl_training.models.onednn_linear import linear_products
from rl_training.models.small_mlp import fits, run_here, small_mlp

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
}


def linear(inputs: int, outputs: int, gain: float | None, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """Returns a linear layer; with a gain, initialised orthogonally with zero bias, otherwise as torch does."""
    layer = kind(inputs, outputs)
    if gain is not None:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return layer


class MLP(nn.Module):
    """A perceptron: hidden layers with an activation each, then, if `outputs` is given, a linear layer.

    With `layer_norm`, every hidden layer is normalised before its activation. One module call for the whole network:
    acting on a few rows is bound by calls, not by arithmetic.
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
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.activation_fn, self.activation = activation_fn, ACTIVATIONS[activation_fn]
        self.num_hidden, self.layer_norm = len(hidden), layer_norm
        self.products: str | None = None  # how the one kernel for all layers rounds, if it is used
        self.features_dim = [inputs, *hidden][-1] if outputs is None else outputs
        gain = math.sqrt(2) if ortho_init else None
        layers = [linear(i, o, gain) for i, o in pairwise([inputs, *hidden])]
        if outputs is not None:
            layers.append(linear([inputs, *hidden][-1], outputs, output_gain if ortho_init else None))
        for index, layer in enumerate(layers):
            for name, parameter in layer.named_parameters():
                self.register_parameter(f"{name}{index}", parameter)
            if layer_norm and index < self.num_hidden:
                self.register_parameter(f"scale{index}", nn.Parameter(torch.ones(layer.out_features)))
                self.register_parameter(f"shift{index}", nn.Parameter(torch.zeros(layer.out_features)))

    def forward(self, x: Tensor) -> Tensor:
        if self.products is not None and x.is_cuda:
            return self.at_once(x, self.products)
        if self.layer_norm:
            for layer in self.layers(x):
                x = layer
            return x
        parameters = iter(
            self._parameters.values()
        )  # as `layers` does, without a generator: every step comes through here
        for index, (weight, bias) in enumerate(zip(parameters, parameters, strict=True)):
            assert weight is not None
            products = linear_products(x, weight, bias)
            x = products if products.dtype == x.dtype else products.to(x.dtype)
            if index < self.num_hidden:
                x = self.activation(x)
        return x

    def at_once(self, x: Tensor, products: str) -> Tensor:
        """Returns what `forward` does by the operator for small networks, which is made for a GPU."""
        rows = x.reshape(-1, x.shape[-1]).float().contiguous()  # an encoder's features may be rounded
        output = small_mlp(rows, *self._parameters.values(), self.activation_fn, products)
        return output.unflatten(0, x.shape[:-1]).to(x.dtype)

    def fuse(self, products: str) -> None:
        """Makes later GPU calls use one kernel for all layers if it supports this network; otherwise does nothing.

        Factors of products are rounded to `products`: "float32", "tf32" or "bf16".
        """
        if self.fits(products):
            self.products = products

    def fits(self, products: str) -> bool:
        weights = [p for name, p in self.named_parameters() if name.startswith("weight")]
        return self.num_hidden == 2 and not self.layer_norm and fits(weights, self.activation_fn, products)

    def layers(self, x: Tensor) -> Iterator[Tensor]:
        """Yields the output of every layer: of the hidden ones after their activation, of the last one without."""
        parameters = list(self._parameters.values())  # one look-up for all layers
        stride = 4 if self.layer_norm else 2
        for index, start in enumerate(range(0, len(parameters), stride)):
            weight, bias, *norm = parameters[start : start + stride]
            assert weight is not None
            products = linear_products(x, weight, bias)
            x = products if products.dtype == x.dtype else products.to(x.dtype)  # which bf16 rounds
            if index < self.num_hidden:
                x = self.activation(F.layer_norm(x, x.shape[-1:], norm[0], norm[1]) if norm else x)
            yield x


class NoisyMLP(nn.Module):
    """A perceptron whose weights carry factorised Gaussian noise of learned size (Fortunato et al., arXiv:1706.10295).

    Every call draws new noise, which all rows share; with `noise=False` the weights are their means.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, *, activation_fn: str = "relu", sigma: float = 0.5
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation_fn]
        self.num_layers = len(hidden) + 1
        for index, (i, o) in enumerate(pairwise([inputs, *hidden, outputs])):
            bound = 1 / math.sqrt(i)
            self.register_parameter(f"weight{index}", nn.Parameter(torch.empty(o, i).uniform_(-bound, bound)))
            self.register_parameter(f"bias{index}", nn.Parameter(torch.empty(o).uniform_(-bound, bound)))
            self.register_parameter(f"weight_sigma{index}", nn.Parameter(torch.full((o, i), sigma * bound)))
            self.register_parameter(f"bias_sigma{index}", nn.Parameter(torch.full((o,), sigma * bound)))

    def forward(self, x: Tensor, *, noise: bool) -> Tensor:
        for layer in self.layers(x, noise=noise):
            x = layer
        return x

    def layers(self, x: Tensor, *, noise: bool) -> Iterator[Tensor]:
        for index in range(self.num_layers):
            weight, bias = getattr(self, f"weight{index}"), getattr(self, f"bias{index}")
            if noise:
                rows, columns = (spread(noise_like("normal", part)) for part in (weight[:, 0], weight[0]))
                weight = weight + getattr(self, f"weight_sigma{index}") * rows.unsqueeze(1) * columns
                bias = bias + getattr(self, f"bias_sigma{index}") * rows
            products = linear_products(x, weight, bias)
            x = products if products.dtype == x.dtype else products.to(x.dtype)  # which bf16 rounds
            if index < self.num_layers - 1:
                x = self.activation(x)
            yield x


def spread(x: Tensor) -> Tensor:
    """Returns sign(x) * sqrt(|x|), the factor of factorised noise."""
    return x.sign() * x.abs().sqrt()


def fuse_networks(module: nn.Module, products: str) -> bool:
    """Switches every small enough MLP in a module to one GPU kernel; returns True if any was switched.

    Factors of products are rounded to `products`: "float32", "tf32" or "bf16". If the kernels cannot be built, it logs
    a warning and switches none. The module may be a stack, with parameters [member, ...].
    """
    nets = [net for net in module.modules() if isinstance(net, MLP) and net.products is None]
    for net in nets:
        net.fuse(products)
    fused = [net for net in nets if net.products]
    on_gpu = [(list(net.parameters()), net.activation_fn, products) for net in fused if next(net.parameters()).is_cuda]
    if not run_here(on_gpu):
        for net in fused:
            net.products = None
    return any(net.products for net in fused)


def has_small_networks(module: nn.Module, products: str) -> bool:
    """Says if a module has an MLP that is small enough for `fuse_networks`."""
    return any(isinstance(net, MLP) and net.fits(products) for net in module.modules())
