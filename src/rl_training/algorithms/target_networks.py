"""Target networks: slow copies of networks, whose values are the targets of losses."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class TargetNetworks(NamedTuple):
    """The target networks of a method, the online networks that they follow, and how far and how often they move."""

    pairs: Sequence[tuple[nn.Module, nn.Module]]  # a target and the online network that it follows
    tau: float  # share by which targets move; 1: they are copied
    every: int
    unit: Literal["updates", "env_steps"] = "updates"  # of `every`

    def move(self) -> None:
        """Moves every target network towards its online network by the share `tau`."""
        for target, online in self.pairs:
            follow(target, online, self.tau)


def frozen_copy(network: ModuleT) -> ModuleT:
    """Returns a deep copy of a network, for use as a target; the copy's parameters get no gradients."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(target: nn.Module, online: nn.Module, tau: float | Tensor) -> None:
    """Moves a target network's parameters, in place, by the share `tau` towards the online ones; 1 copies them.

    The members of a stack may have a share each, [member].
    """
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        several = isinstance(tau, Tensor) and tau.ndim > 0
        old.lerp_(new, tau.view(-1, *(1,) * (new.ndim - 1)) if several else tau)  # pyrefly: ignore (a tensor)
