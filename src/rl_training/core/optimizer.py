"""Optimizers as modules: their whole state, learning rate included, is tensors in one state tree.

Gradients are flattened into one vector, so a step costs a handful of operations however many parameters there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from rl_training.core.schedule import Schedule, Scheduled

Group = tuple[Iterable[nn.Parameter], Schedule]


class Optimizer(nn.Module, ABC):
    """Base of optimizers: one learning rate per group of parameters, gradients clipped by the norm over all groups."""

    def __init__(self, groups: Sequence[Group], *, max_grad_norm: float | None = None) -> None:
        super().__init__()
        listed = [(list(parameters), schedule) for parameters, schedule in groups]
        self.targets: list[Tensor] = [parameter for parameters, _ in listed for parameter in parameters]
        self.sizes = [parameter.numel() for parameter in self.targets]
        self.group_sizes = [sum(p.numel() for p in parameters) for parameters, _ in listed]
        ends = accumulate(len(parameters) for parameters, _ in listed)
        self.groups = [slice(start, end) for start, end in pairwise([0, *ends])]  # of the targets
        self.learning_rates = nn.ModuleList(Scheduled(schedule) for _, schedule in listed)
        self.max_grad_norm = max_grad_norm
        self.gathered: Tensor | None = None  # the flat gradient's memory on the CPU

    @abstractmethod
    def direction(self, grad: Tensor, enabled: Tensor | None) -> Tensor:
        """Returns the step, a vector like the flat gradient, before it is multiplied by the learning rate.

        Also updates the running averages if `enabled`, a 0-dim bool (None means True).
        """

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], enabled: Tensor) -> Tensor:
        """Clips the gradients, one per parameter, and moves the parameters if `enabled` (0-dim) and all are finite.

        Returns a 0-dim bool: True if the gradients are finite.
        """
        if grads[0].device.type == "cpu" and not torch.compiler.is_compiling():
            return self.step_on_host(grads, enabled)
        grad = torch.cat([g.reshape(-1) for g in grads])
        norm = grad.norm()
        finite = torch.isfinite(norm)
        if self.max_grad_norm is not None:
            grad = grad * (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        enabled = enabled & finite
        self.subtract(torch.where(enabled, self.learning_rate() * self.direction(grad, enabled), 0.0))
        return finite

    def step_on_host(self, grads: Sequence[Tensor], enabled: Tensor) -> Tensor:
        """Does the same as `step` on the uncompiled CPU, where branching on a number and reusing memory is faster."""
        if self.gathered is None:
            self.gathered = torch.empty(sum(self.sizes))
        grad = torch.cat([g.reshape(-1) for g in grads], out=self.gathered)
        norm = torch.linalg.vector_norm(grad)
        size = float(norm)
        finite = math.isfinite(size)
        if finite and enabled:
            if self.max_grad_norm is not None and size > 0.99 * self.max_grad_norm:  # below, nothing is clipped
                grad.mul_((self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
            self.move(grad)
        return torch.tensor(finite)

    def move(self, grad: Tensor) -> None:
        """Moves the parameters by one step against a flat gradient on the CPU; may overwrite the gradient."""
        self.subtract(self.direction(grad, None).mul_(self.learning_rate()))

    def subtract(self, delta: Tensor) -> None:
        parts = [part.view_as(target) for part, target in zip(delta.split(self.sizes), self.targets, strict=True)]
        torch._foreach_sub_(self.targets, parts)

    def learning_rate(self) -> Tensor:
        if len(self.group_sizes) == 1:
            return self.learning_rates[0]()
        rates = [rate().expand(size) for rate, size in zip(self.learning_rates, self.group_sizes, strict=True)]
        return torch.cat(rates)


class Adam(Optimizer):
    """The optimizer Adam (Kingma & Ba, 2015), without weight decay; `eps` is added after the root, as in torch."""

    mean: Tensor
    square: Tensor
    count: Tensor

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        max_grad_norm: float | None = None,
    ) -> None:
        super().__init__(groups, max_grad_norm=max_grad_norm)
        self.betas, self.eps = betas, eps
        self.register_buffer("mean", torch.zeros(sum(self.sizes)))
        self.register_buffer("square", torch.zeros(sum(self.sizes)))
        self.register_buffer("count", torch.zeros(()))

    def direction(self, grad: Tensor, enabled: Tensor | None) -> Tensor:
        beta1, beta2 = self.betas
        self.count.add_(1 if enabled is None else enabled)
        mean = moved(self.mean, grad, 1 - beta1, enabled)
        square = moved(self.square, grad.square(), 1 - beta2, enabled)
        return (mean / self.settled(beta1)).div_((square / self.settled(beta2)).sqrt_().add_(self.eps))

    def move(self, grad: Tensor) -> None:
        """Moves the parameters by one step against a flat gradient on the CPU, with torch's fused Adam kernel.

        It rounds in another order than `direction`, which is used instead if a parameter is not contiguous.
        """
        if not all(
            target.is_contiguous() for target in self.targets
        ):  # the kernel would take numbers in memory's order
            super().move(grad)
            return
        self.count.add_(1)
        targets = [target.view(-1) for target in self.targets]
        grads, means, squares = (vector.split(self.sizes) for vector in (grad, self.mean, self.square))
        for part, rate in zip(self.groups, self.learning_rates, strict=True):
            torch._fused_adam_(
                targets[part],
                grads[part],
                means[part],
                squares[part],
                [],  # only for amsgrad
                [self.count] * len(targets[part]),
                lr=rate(),
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=0.0,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )

    def settled(self, beta: float) -> Tensor:
        """Returns Adam's bias correction 1 - beta**count after `count` steps, 0-dim, exact also for the first ones."""
        return -(self.count * math.log(beta)).expm1()


class RAdam(Adam):
    """The optimizer RAdam (Liu et al., 2020, arXiv:1908.03265): plain momentum until squares are well averaged."""

    move = Optimizer.move  # the kernel is Adam's

    def direction(self, grad: Tensor, enabled: Tensor | None) -> Tensor:
        adapted = super().direction(grad, enabled)
        beta1, beta2 = self.betas
        settled = self.settled(beta2)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * self.count * (1 - settled) / settled  # of the average, in samples
        share = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        plain = self.mean / self.settled(beta1)
        return torch.where(length > 5, share.clamp(min=0).sqrt() * adapted, plain)


class RMSprop(Optimizer):
    """The optimizer RMSprop, without momentum; `tf_like` puts `eps` inside the root and starts the average at one."""

    square: Tensor

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        alpha: float = 0.99,
        eps: float = 1e-5,
        tf_like: bool = False,
        max_grad_norm: float | None = None,
    ) -> None:
        super().__init__(groups, max_grad_norm=max_grad_norm)
        self.alpha, self.eps, self.tf_like = alpha, eps, tf_like
        self.register_buffer("square", torch.full((sum(self.sizes),), 1.0 if tf_like else 0.0))

    def direction(self, grad: Tensor, enabled: Tensor | None) -> Tensor:
        square = moved(self.square, grad.square(), 1 - self.alpha, enabled)
        return grad / ((square + self.eps).sqrt() if self.tf_like else square.sqrt() + self.eps)


def moved(average: Tensor, towards: Tensor, share: float, enabled: Tensor | None) -> Tensor:
    """Returns `average` moved by `share` of the way to `towards`; also writes it to `average` if `enabled` or None."""
    if enabled is None:
        return average.lerp_(towards, share)
    moved = torch.lerp(average, towards, share)
    average.copy_(torch.where(enabled, moved, average))
    return moved
