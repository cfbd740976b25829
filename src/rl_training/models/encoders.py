"""Encoders turn an observation of any space into one feature vector per row."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.core import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Tree
from rl_training.models.own_encoder import Encoder, build_own
from rl_training.models.picture_encoders import PICTURE_ENCODERS, choose_by_size

MOST_CHOICES = 100_000  # that become one-hot: beyond it a batch of observations fills the memory


class FlatEncoder(Encoder):
    """An encoder without parameters: arrays are flattened, choices become one-hot vectors, bits become numbers.

    Raises a ValueError for spaces of more than 100,000 choices.
    """

    def __init__(self, space: Leaf) -> None:
        super().__init__()
        self.space = space
        self.features_dim = space.size
        if not isinstance(space, Box) and self.features_dim > MOST_CHOICES:
            raise ValueError(
                f"the observation {type(space).__name__} has {self.features_dim} choices, and a one-hot vector takes at most "
                f"{MOST_CHOICES}: pass `encoder='module:factory'` with an nn.Embedding, or observe a Box of numbers"
            )

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.space, Discrete):
            return F.one_hot(x.long(), self.space.num).float()
        if isinstance(self.space, MultiDiscrete):
            parts = zip(x.long().unbind(-1), self.space.nums, strict=True)
            return torch.cat([F.one_hot(part, num).float() for part, num in parts], -1)
        if isinstance(self.space, Box) and len(self.space.shape) != 1:
            x = x.flatten(x.ndim - len(self.space.shape)) if self.space.shape else x.unsqueeze(-1)
        return x.float()


class DictEncoder(Encoder):
    """An encoder that encodes every key of a Dict by itself and joins the features; it leaves out the action mask."""

    def __init__(self, space: Dict, *, pictures: str | None = None, ortho_init: bool = True) -> None:
        super().__init__()
        leaves = {key: leaf for key, leaf in space.spaces.items() if key != "action_mask"}
        encoders = [build_leaf_encoder(leaf, pictures, ortho_init=ortho_init) for leaf in leaves.values()]
        self.names = list(leaves)  # beside a list of modules: users' keys need not be valid module names
        self.parts = nn.ModuleList(encoders)
        self.features_dim = sum(encoder.features_dim for encoder in encoders)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.cat([part(obs[name]) for name, part in zip(self.names, self.parts, strict=True)], -1)


def build_encoder(space: Space, *, factory: str | None = None, ortho_init: bool = True) -> Encoder:
    """Returns a new encoder for a space: that for its kind, or the user's from `factory`, 'package.module:name'.

    As `factory`, `nature`, `impala`, `small` or `flat` names the one for pictures, also for those in a Dict.
    """
    if factory is not None and ":" in factory:
        return build_own(factory, space)
    if factory is not None and factory not in PICTURE_ENCODERS:
        names = ", ".join(map(repr, PICTURE_ENCODERS))
        raise ValueError(
            f"encoder={factory!r} names no code: write it 'package.module:name', or use {names} for pictures"
        )
    if isinstance(space, Dict):
        return DictEncoder(space, pictures=factory, ortho_init=ortho_init)
    return build_leaf_encoder(space, factory, ortho_init=ortho_init)


def build_leaf_encoder(space: Leaf, pictures: str | None, *, ortho_init: bool) -> Encoder:
    """Returns a new encoder for a space that is no Dict; `pictures` names that of pictures, None: by their size."""
    if not isinstance(space, Box) or not space.is_image:
        return FlatEncoder(space)
    kind = choose_by_size(space) if pictures is None else PICTURE_ENCODERS[pictures]
    return kind(space, ortho_init=ortho_init)


def encode_mask(obs: Tree) -> Tensor | None:
    """Returns the entry "action_mask" of a dict of observations; None if there is none or `obs` is no dict."""
    return obs.get("action_mask") if isinstance(obs, dict) else None
