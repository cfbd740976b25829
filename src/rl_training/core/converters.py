"""Conversion between an environment's units and a policy's, as modules that move and are exported with the policy."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from rl_training.core.spaces import Box, Dict, Discrete, Leaf, Space
from rl_training.core.tree import Tree

DTYPES = {"float32": torch.float32, "uint8": torch.uint8, "int64": torch.int64}
EDGE = 1e-6  # of half the range: actions that near to a bound count as at it, because rescaling rounds


class ObservationConverter(nn.Module):
    """A module that converts observations to what networks take: arrays in the space's dtype, choices counted from 0.

    It takes tensors [rows, ...], one or one per key, and raises a ValueError for missing keys, wrong shapes and, on the
    CPU, numbers that are not finite.
    """

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    def forward(self, obs: Tree) -> Tree:
        self.check(obs)
        return self.convert(obs)

    def check(self, obs: Tree) -> None:
        """Raises a ValueError if observations do not fit the space."""
        if isinstance(self.space, Dict):
            if not isinstance(obs, dict) or not self.space.spaces.keys() <= obs.keys():
                given = list(obs) if isinstance(obs, dict) else type(obs).__name__
                raise ValueError(
                    f"the observation must be a dict with the keys {sorted(self.space.spaces)}, not {given}"
                )
            for key, leaf in self.space.spaces.items():
                self.check_leaf(obs[key], leaf, f"observation[{key!r}]")
        else:
            self.check_leaf(obs, self.space, "the observation")

    def check_leaf(self, x: object, space: Leaf, name: str) -> None:
        if not isinstance(x, Tensor):
            raise ValueError(f"{name} is a {type(x).__name__}: give a tensor (torch.as_tensor), or use agent.predict")
        if x.ndim == 0 or x.shape[1:] != space.shape:
            wanted = f"({', '.join(['rows', *map(str, space.shape)])})"
            hint = "; obs[None] makes one row of it" if x.shape == space.shape else ""
            raise ValueError(f"{name} has the shape {tuple(x.shape)}: it must be {wanted}{hint}")
        if x.device.type == "cpu" and not torch.compiler.is_compiling() and not x.isfinite().all():  # a GPU would wait
            raise ValueError(f"{name} is not finite: give real numbers, without nan and inf")

    def convert(self, obs: Tree) -> Tree:
        """Returns observations that fit the space, which is not checked, as networks take them."""
        if isinstance(self.space, Dict):
            assert isinstance(obs, dict)
            return {key: convert_leaf(obs[key], leaf) for key, leaf in self.space.spaces.items()}
        assert isinstance(obs, Tensor)
        return convert_leaf(obs, self.space)


def convert_leaf(x: Tensor, space: Leaf) -> Tensor:
    dtype = DTYPES[space.dtype]
    x = x if x.dtype is dtype else x.to(dtype)
    return x - space.start if isinstance(space, Discrete) and space.start else x


class ActionConverter(nn.Module):
    """A module that converts a policy's actions to the environment's: rescaled if `squashed`, clipped and cast.

    The bounds are buffers that are not in its state_dict, because they follow from the space.
    """

    low: Tensor
    high: Tensor
    span: Tensor
    own_low: Tensor
    own_high: Tensor

    def __init__(self, space: Space, *, squashed: bool) -> None:
        super().__init__()
        self.space, self.squashed = space, squashed
        own = None if isinstance(space, Dict) else space.env_dtype
        self.own_dtype: torch.dtype | None = None if own is None else getattr(torch, own)
        if isinstance(space, Box):
            self.register_buffer("low", torch.tensor(space.low), persistent=False)
            self.register_buffer("high", torch.tensor(space.high), persistent=False)
            self.register_buffer("span", self.high - self.low, persistent=False)
            if own is not None:
                self.register_buffer("own_low", torch.tensor(space.low, dtype=torch.float64), persistent=False)
                self.register_buffer("own_high", torch.tensor(space.high, dtype=torch.float64), persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        if isinstance(self.space, Box):
            low, high, span, *_ = self._buffers.values()  # one look-up for all: every step comes through here
            if self.squashed:
                action = low + (action + 1) * 0.5 * span  # pyrefly: ignore (none of them is None)
            action = torch.clamp(action, low, high)  # rescaling may miss a bound by its rounding
            if self.own_dtype is not None:
                action = self.in_own_dtype(action)
            return action if len(self.space.shape) == 1 else action.reshape(*action.shape[:-1], *self.space.shape)
        if isinstance(self.space, Discrete) and self.space.start:
            action = action + self.space.start
        return action if self.own_dtype is None else action.to(self.own_dtype)

    def in_own_dtype(self, action: Tensor) -> Tensor:
        """Returns actions clipped to the environment's bounds in its dtype, rounded if that is an integer type."""
        assert self.own_dtype is not None
        action = action.double() if self.own_dtype.is_floating_point else action.double().round()
        return action.clamp(self.own_low, self.own_high).to(self.own_dtype)

    def inverse(self, action: Tensor) -> Tensor:
        """Returns actions [batch, ...] of the environment in the policy's units, in which networks learn.

        Box actions become [batch, size], clipped to [-1, 1] if `squashed`; discrete ones count from 0.
        """
        if isinstance(self.space, Box):
            action = action if len(self.space.shape) == 1 else action.reshape(len(action), self.space.size)
            if self.squashed:
                action = (2 * (action - self.low) / self.span - 1).clamp(-1, 1)
            return action
        if isinstance(self.space, Discrete) and self.space.start:
            return action - self.space.start
        return action

    @property
    def rounds(self) -> bool:
        """Says if the environment takes a Box of integers, so that a policy's continuous actions are rounded."""
        return isinstance(self.space, Box) and self.own_dtype is not None and not self.own_dtype.is_floating_point

    @property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Returns limits (low, high) [size] in the policy's units; Box actions beyond them count as at a bound."""
        if self.squashed:
            inside = torch.full_like(self.span, 1 - EDGE)
            return -inside, inside
        margin = torch.where(self.span.isfinite(), 0.5 * EDGE * self.span, 0.0)
        return self.low + margin, self.high - margin

    def log_volume(self, action: Tensor) -> Tensor | float:
        """Returns the decrease [batch] in log-density by rescaling actions [batch, size] from [-1, 1] to the bounds.

        Components at a bound do not count: they have a probability instead of a density. 0.0 if nothing is rescaled.
        """
        if not (self.squashed and isinstance(self.space, Box)):
            return 0.0
        inside = (action.abs() < 1 - EDGE) & (self.span > 0)
        return torch.where(inside, (0.5 * self.span.double()).log(), 0.0).sum(-1).to(action.dtype)

    def on(self, device: torch.device | str) -> Self:
        """Returns a copy of the converter on `device`, independent of the policy's device."""
        return copy.deepcopy(self).to(device)
