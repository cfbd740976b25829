"""Running normalisation of observations; part of the policy, so it travels with every saved model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_training.core import ALONE, Box, Dict, Ranks, Space, Tree
from rl_training.functional import RunningMoments, merge_moments


class RunningNorm(nn.Module):
    """A layer that normalises by a running mean and variance, which only `update` changes, and clips the result."""

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float) -> None:
        super().__init__()
        self.clip = clip
        # In float32 a mean stops moving once a row changes it by less than its last bit.
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.mean.to(torch.float32), self.var.to(torch.float32)
        return ((x - mean) * (var + 1e-8).rsqrt()).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, rows: Tensor, ranks: Ranks = ALONE) -> None:
        """Adds the rows (first dimension) of all ranks to the running mean and variance."""
        new = merge_moments(RunningMoments(self.mean, self.var, self.count), rows.double(), ranks)
        for buffer, value in zip((self.mean, self.var, self.count), new, strict=True):
            buffer.copy_(value)


class ObservationNormalizer(nn.Module):
    """A module that normalises the arrays of an observation, if `enabled`; images, choices and masks pass unchanged."""

    def __init__(self, space: Space, *, enabled: bool, clip: float = 10.0) -> None:
        super().__init__()
        leaves = space.spaces if isinstance(space, Dict) else {"": space}
        wanted = {
            key: RunningNorm(leaf.shape, clip)
            for key, leaf in leaves.items()
            if enabled and isinstance(leaf, Box) and not leaf.is_image and not key.endswith("action_mask")
        }
        self.names = list(wanted)
        self.norms = nn.ModuleList(wanted.values())

    @property
    def enabled(self) -> bool:
        return len(self.names) > 0

    def forward(self, obs: Tree) -> Tree:
        if not self.names:
            return obs
        if isinstance(obs, dict):
            changed = {name: norm(obs[name]) for name, norm in zip(self.names, self.norms, strict=True)}
            return obs | changed
        return self.norms[0](obs)

    def update(self, obs: Tree, valid: Tensor, ranks: Ranks = ALONE) -> None:
        """Adds all ranks' observations in rows where the bool mask `valid` is True to the running statistics."""
        for name, norm in zip(self.names, self.norms, strict=True):
            assert isinstance(norm, RunningNorm)
            column = obs[name] if isinstance(obs, dict) else obs
            norm.update(column[valid], ranks)
