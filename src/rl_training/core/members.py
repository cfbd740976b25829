"""Members of a stack: several algorithms of one kind as one, each tensor of which has a first dimension for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from rl_training.core.noise import NoiseRequest, provided_noise, recorded_requests
from rl_training.core.optimizer import Optimizer
from rl_training.core.vmap import vmap

ModuleT = TypeVar("ModuleT", bound=nn.Module)
Slot = tuple[dict[str, Any], str]  # of a module's parameters, buffers or attributes, and a name in it


class Members:
    """Runs code that was written for one module on all members of a stacked module at once."""

    def __init__(self, module: nn.Module, number: int) -> None:
        self.number = number
        self.slots = [slot for owner, slot in slots(module) if not isinstance(owner, Optimizer)]
        self.slots += getattr(module, "own_numbers", [])
        self.tensors = [held[name] for held, name in self.slots]
        self.asked: dict[str, tuple[NoiseRequest, ...]] = {}  # by loss
        # returns a tensor [member, ...] for each request
        self.draw: Callable[[tuple[NoiseRequest, ...]], tuple[Tensor, ...]] = draw_nothing

    def each(self, function: Callable, *arguments: Any) -> Any:
        """Returns the results of `function` for every member, [member, ...], with the member's parameters and buffers.

        `arguments` are trees of tensors [member, ...]. The function must not change what the module holds.
        """
        return vmap(self.number, partial(self.one, function), self.tensors, arguments)

    def loss(self, name: str, function: Callable, batch: Any) -> Any:
        """Returns `each` of a loss for batches [member, ...], with the random numbers that it asks for from `draw`.

        What the loss of this name asks for is noted at its first call.
        """
        if name not in self.asked:
            with recorded_requests() as asked, torch.no_grad():
                self.each(function, batch)
            self.asked[name] = tuple(asked)
        if not self.asked[name]:
            return self.each(function, batch)
        return self.each(partial(with_numbers, function), self.draw(self.asked[name]), batch)

    def one(self, function: Callable, tensors: Sequence[Tensor], arguments: Sequence) -> Any:
        for (held, name), tensor in zip(self.slots, tensors, strict=True):
            held[name] = tensor
        try:
            return function(*arguments)
        finally:
            for (held, name), stacked in zip(self.slots, self.tensors, strict=True):
                held[name] = stacked


def with_numbers(function: Callable, numbers: Sequence[Tensor], batch: Any) -> Any:
    with provided_noise(numbers):
        return function(batch)


def draw_nothing(asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, ...]:
    raise TypeError("this stack has no source of random numbers")


def slots(module: nn.Module) -> Iterator[tuple[nn.Module, Slot]]:
    """Yields every parameter and buffer of a module once, with the module that owns it."""
    seen: set[int] = set()
    for owner in module.modules():
        for held in (owner._parameters, owner._buffers):
            for name, tensor in held.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield owner, (held, name)


def stack(modules: Sequence[ModuleT]) -> ModuleT:
    """Returns a copy of the first module with the tensors of all, [member, ...], of which their own become views.

    What changes in the stack changes in its members, and the other way round. Counts of optimizers are [member, 1].
    """
    whole = deepcopy(modules[0])
    for (owner, (held, name)), *theirs in zip(slots(whole), *map(slots, modules), strict=True):
        parts = [part[other] for _, (part, other) in theirs]
        rows = torch.stack([part.detach() for part in parts])
        for part, row in zip(parts, rows, strict=True):
            part.data = row
        held[name].data = rows.unsqueeze(1) if isinstance(owner, Optimizer) and rows.ndim == 1 else rows
    whole.own_numbers = list(own_numbers(whole, modules))  # pyrefly: ignore (for `Members`)
    return whole


def own_numbers(whole: nn.Module, modules: Sequence[nn.Module]) -> Iterator[Slot]:
    """Replaces plain numbers in which the members differ by tensors, [member], and yields their places.

    Those of optimizers, which are stepped for all members together, are [member, 1], and not yielded.
    """
    device = next(iter(whole.state_dict().values())).device
    for (owner, (held, name)), *theirs in zip(settings(whole), *map(settings, modules), strict=True):
        numbers = [part[name] for _, (part, _) in theirs]
        if all(number == numbers[0] for number in numbers):
            continue
        column = torch.tensor(numbers, dtype=torch.float32, device=device)
        if isinstance(owner, Optimizer):
            held[name] = column.unsqueeze(1)
        else:
            held[name] = column
            yield held, name


def settings(module: nn.Module) -> list[tuple[object, Slot]]:
    """Returns the attributes of a module and its parts, and the settings of its config, that are numbers."""
    owners: list[object] = [*module.modules(), *([module.config] if hasattr(module, "config") else [])]
    return [
        (owner, (vars(owner), name)) for owner in owners for name, value in vars(owner).items() if type(value) is float
    ]


def take_out(module: nn.Module) -> None:
    """Gives the parameters and buffers of a member memory of their own, with the numbers that they have."""
    for _, (held, name) in slots(module):
        held[name].data = held[name].detach().clone()


@torch.no_grad()
def step_rows(optimizer: Optimizer, grads: Sequence[Tensor], enabled: Tensor) -> Tensor:
    """Does for every member of a stack what `Optimizer.step` does for one, with a row of its own for each.

    `grads` and `enabled` have a first dimension for the members; so has the result, which says whose are finite.
    """
    grad = torch.cat([g.reshape(len(g), -1) for g in grads], 1)
    norm = grad.norm(dim=1, keepdim=True)
    finite = norm.isfinite()
    if optimizer.max_grad_norm is not None:
        grad.mul_((optimizer.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    enabled = enabled.unsqueeze(1) & finite
    rates = [rate().unsqueeze(1) for rate in optimizer.learning_rates]
    if len(rates) > 1:
        rates = [rate.expand(-1, size) for rate, size in zip(rates, optimizer.group_sizes, strict=True)]
    rate = torch.cat(rates, 1)
    if all_move_on_host(enabled):
        step = optimizer.direction(grad, None).mul_(rate)
    else:
        step = torch.where(enabled, rate * optimizer.direction(grad, enabled), 0.0)
    parts = [
        part.view_as(target) for part, target in zip(step.split(optimizer.sizes, 1), optimizer.targets, strict=True)
    ]
    torch._foreach_sub_(optimizer.targets, parts)
    return finite.squeeze(1)


def all_move_on_host(enabled: Tensor) -> bool:
    """Says if all members move, on the uncompiled CPU, where that is read and then saves copies of the averages."""
    return enabled.device.type == "cpu" and not torch.compiler.is_compiling() and bool(enabled.all())
