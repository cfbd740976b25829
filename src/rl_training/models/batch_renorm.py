"""Batch renormalisation (Ioffe, 2017, arXiv:1702.03275) and networks with it, as CrossQ needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from rl_training.models.ensembles import EnsembleMLP, Members, products, select

MAX_SCALE, MAX_SHIFT = 3.0, 5.0  # how far renormalisation may lead away from the batch's own statistics


class BatchRenorm(nn.Module):
    """A layer that normalises [num, batch, features]: over the batch if `train`, otherwise by running averages.

    Until more than `warmup_steps` batches were seen it is batch normalisation; then it corrects batches to the running
    averages.
    """

    mean: Tensor
    var: Tensor
    steps: Tensor

    def __init__(self, num: int, features: int, *, momentum: float, warmup_steps: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.momentum, self.warmup_steps, self.eps = momentum, warmup_steps, eps
        self.scale = nn.Parameter(torch.ones(num, 1, features))
        self.shift = nn.Parameter(torch.zeros(num, 1, features))
        self.register_buffer("mean", torch.zeros(num, 1, features))
        self.register_buffer("var", torch.ones(num, 1, features))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor, *, train: bool) -> Tensor:
        x = self.by_batch(x) if train else (x - self.mean) * (self.var + self.eps).rsqrt()
        return x * self.scale + self.shift

    def by_batch(self, x: Tensor) -> Tensor:
        var, mean = torch.var_mean(x, 1, keepdim=True)
        std = (var + self.eps).sqrt()
        with torch.no_grad():
            running_std = (self.var + self.eps).sqrt()
            warm = self.steps > self.warmup_steps
            r = torch.where(warm, (std / running_std).clamp(1 / MAX_SCALE, MAX_SCALE), 1.0)
            d = torch.where(warm, ((mean - self.mean) / running_std).clamp(-MAX_SHIFT, MAX_SHIFT), 0.0)
            self.mean.lerp_(mean, self.momentum)
            self.var.lerp_(var, self.momentum)
            self.steps.add_(1)
        return (x - mean) / std * r + d


class RenormMLP(EnsembleMLP):
    """An ensemble of perceptrons with batch renormalisation of its input and of every activation's output."""

    def __init__(
        self,
        num: int,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        activation_fn: str = "relu",
        momentum: float = 0.01,
        warmup_steps: int = 100_000,
    ) -> None:
        super().__init__(num, inputs, hidden, outputs, activation_fn=activation_fn)
        self.norms = nn.ModuleList(
            BatchRenorm(num, width, momentum=momentum, warmup_steps=warmup_steps) for width in (inputs, *hidden)
        )

    def layers(self, x: Tensor, members: Members = None, *, train: bool = True) -> Iterator[Tensor]:
        """Yields each layer's output [num, batch, width], the last only of the networks `members` (None: all).

        With `train` it normalises by the batch and updates the running averages, otherwise by these.
        """
        last = len(self.weights) - 1
        x = x.expand(len(self.weights[0]), -1, -1)
        for index, (weight, bias, norm) in enumerate(zip(self.weights, self.biases, self.norms, strict=True)):
            x = products(norm(x, train=train), weight, bias)
            x = self.activation(x) if index < last else select(x, members)
            yield x
