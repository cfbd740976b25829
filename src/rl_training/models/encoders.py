"""Encoders turn an observation of any space into one feature vector per row."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.core import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Tree
from rl_training.models.mlp import linear
from rl_training.models.own_encoder import build_own


class Encoder(nn.Module):
    """A base class of modules that map observations to `features_dim` numbers per row."""

    features_dim: int


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


class NatureCNN(Encoder):
    """An encoder of uint8 images by the convolutions of Mnih et al. (2015); the first or last dimension is channels.

    The smaller of these two is taken as channels. Raises a ValueError for images below 36x36.
    """

    def __init__(self, space: Box, features_dim: int = 512, *, ortho_init: bool = True) -> None:
        super().__init__()
        if min(space.shape[1:]) < 36 and min(space.shape[:2]) < 36:
            raise ValueError(
                f"images of shape {space.shape} are too small for NatureCNN (at least 36x36): "
                "pass `encoder='module:factory'` with a network of your own"
            )
        self.channels_last = space.shape[2] < space.shape[0]
        channels = space.shape[2] if self.channels_last else space.shape[0]
        self.features_dim = features_dim
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        if ortho_init:
            for layer in self.convolutions:
                if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                    nn.init.orthogonal_(layer.weight, 2**0.5)
                    nn.init.zeros_(layer.bias)
        with torch.no_grad():
            flat = self.convolutions(self.to_channels_first(torch.zeros(1, *space.shape))).shape[-1]
        self.head = nn.Sequential(linear(flat, features_dim, 2**0.5 if ortho_init else None), nn.ReLU())

    def to_channels_first(self, x: Tensor) -> Tensor:
        return x.movedim(-1, -3) if self.channels_last else x

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.convolutions
        images = prepare_images(self.to_channels_first(x.reshape(-1, *x.shape[-3:])))
        # Pixels are divided by 255 in the weights, of which there are fewer.
        outputs = F.conv2d(images, first.weight / 255, first.bias, first.stride)  # pyrefly: ignore (a convolution's)
        for layer in rest:
            outputs = layer(outputs)
        return self.head(outputs).unflatten(0, x.shape[:-3])


def prepare_images(x: Tensor) -> Tensor:
    """Returns uint8 images [batch, channels, height, width] as floats, in the order and data type that suit convolutions.

    Channels lie together in memory on a GPU and where gradients are taken; without them a CPU is faster as it is.
    """
    dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else torch.float32
    if x.device.type == "cpu" and not torch.is_grad_enabled():
        return x.to(dtype, memory_format=torch.contiguous_format)
    return x.contiguous(memory_format=torch.channels_last).to(dtype)


class DictEncoder(Encoder):
    """An encoder that encodes every key of a Dict by itself and joins the features; it leaves out the action mask."""

    def __init__(self, space: Dict, *, ortho_init: bool = True) -> None:
        super().__init__()
        leaves = {key: leaf for key, leaf in space.spaces.items() if key != "action_mask"}
        encoders = [build_encoder(leaf, ortho_init=ortho_init) for leaf in leaves.values()]
        self.names = list(leaves)  # beside a list of modules: users' keys need not be valid module names
        self.parts = nn.ModuleList(encoders)
        self.features_dim = sum(encoder.features_dim for encoder in encoders)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.cat([part(obs[name]) for name, part in zip(self.names, self.parts, strict=True)], -1)


def build_encoder(space: Space, *, factory: str | None = None, ortho_init: bool = True) -> Encoder:
    """Returns a new encoder for a space: that for its kind, or the user's from `factory`, 'package.module:name'."""
    if factory is not None:
        return cast(Encoder, build_own(factory, space))
    if isinstance(space, Dict):
        return DictEncoder(space, ortho_init=ortho_init)
    if isinstance(space, Box) and space.is_image:
        return NatureCNN(space, ortho_init=ortho_init)
    return FlatEncoder(space)


def encode_mask(obs: Tree) -> Tensor | None:
    """Returns the entry "action_mask" of a dict of observations; None if there is none or `obs` is no dict."""
    return obs.get("action_mask") if isinstance(obs, dict) else None
