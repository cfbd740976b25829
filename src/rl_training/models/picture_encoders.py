"""Encoders of pictures, which `encoder` chooses by name: `nature`, `impala`, `small` or `flat`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.core import Box
from rl_training.core.pictures import channels_are_last, sort_dimensions
from rl_training.models.mlp import linear
from rl_training.models.onednn_linear import OneDNNLinear
from rl_training.models.own_encoder import Encoder

BOARD = 12  # cells along a side up to which `SmallCNN` keeps every cell


class PixelConv(nn.Conv2d):
    """A convolution that divides whole numbers by `scale`, the largest of them; it does so in the fewer weights."""

    scale: float = 1.0

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (torch's name)
        return F.conv2d(input, self.weight / self.scale, self.bias, self.stride, self.padding)


class PictureEncoder(Encoder):
    """A base class of encoders of uint8 pictures: convolutions, then one linear layer of `features_dim` units.

    The first or the last dimension of a picture is channels, the smaller one; the last if both are equal. Raises a
    ValueError for pictures with a side below `least`.
    """

    name: str  # that `encoder` gives it
    least: int

    def __init__(self, space: Box, features_dim: int, *, ortho_init: bool) -> None:
        super().__init__()
        self.channels_last = channels_are_last(space)
        channels, sides = sort_dimensions(space)
        if min(sides) < self.least:
            raise ValueError(
                f"pictures of shape {space.shape} are too small for encoder={self.name!r}, which takes "
                f"{self.least}x{self.least} and more: {advice(sides)}"
            )
        self.features_dim = features_dim
        self.convolutions = self.build_convolutions(channels, sides)
        first = next(layer for layer in self.convolutions.modules() if isinstance(layer, PixelConv))
        first.scale = max(1.0, *space.high)
        if ortho_init:
            self.start_orthogonal()
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, channels, *sides)).shape[-1]
        self.head = nn.Sequential(linear(flat, features_dim, 2**0.5 if ortho_init else None, OneDNNLinear), nn.ReLU())

    def build_convolutions(self, channels: int, sides: Sequence[int]) -> nn.Sequential:
        """Returns new layers from pictures [batch, channels, height, width] to [batch, numbers].

        The first convolution is a `PixelConv`; `sides` are height and width.
        """
        raise NotImplementedError

    def start_orthogonal(self) -> None:
        """Sets the convolutions' weights as on-policy methods begin; leaves them as torch made them by default."""

    def forward(self, x: Tensor) -> Tensor:
        images = x.reshape(-1, *x.shape[-3:])
        images = prepare_images(images.movedim(-1, -3) if self.channels_last else images)
        return self.head(self.convolutions(images)).unflatten(0, x.shape[:-3])


class NatureCNN(PictureEncoder):
    """An encoder of uint8 images by the convolutions of Mnih et al. (2015); the first or last dimension is channels.

    Raises a ValueError for images below 36x36.
    """

    name, least = "nature", 36

    def __init__(self, space: Box, features_dim: int = 512, *, ortho_init: bool = True) -> None:
        super().__init__(space, features_dim, ortho_init=ortho_init)

    def build_convolutions(self, channels: int, sides: Sequence[int]) -> nn.Sequential:
        return nn.Sequential(
            PixelConv(channels, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.Flatten(),
            nn.ReLU(),  # of numbers in the order that the next layer, and so its gradient, has
        )

    def start_orthogonal(self) -> None:
        for layer in self.convolutions:
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.orthogonal_(layer.weight, 2**0.5)
                nn.init.zeros_(layer.bias)


class SmallCNN(PictureEncoder):
    """An encoder of boards such as MinAtar's 10x10, and of small pictures: one 3x3 convolution of 16 channels.

    That is MinAtar's own network (Young and Tian, 2019, arXiv:1903.03176). Before it, sides above 12 are halved by
    convolutions of 32 channels.
    """

    name, least = "small", 3

    def __init__(self, space: Box, features_dim: int = 128, *, ortho_init: bool = True) -> None:
        super().__init__(space, features_dim, ortho_init=ortho_init)

    def build_convolutions(self, channels: int, sides: Sequence[int]) -> nn.Sequential:
        layers, kind = list[nn.Module](), PixelConv
        for down, across in halvings(sides):
            layers += [kind(channels, 32, 3, stride=(down, across), padding=1), nn.ReLU()]
            channels, kind = 32, nn.Conv2d
        return nn.Sequential(*layers, kind(channels, 16, 3), nn.ReLU(), nn.Flatten())

    start_orthogonal = NatureCNN.start_orthogonal


class ImpalaCNN(PictureEncoder):
    """An encoder of uint8 images by the residual network of Espeholt et al. (2018, arXiv:1802.01561), 15 convolutions.

    It learns more from the same steps than `NatureCNN`, and costs several times as much.
    """

    name, least = "impala", 3

    def __init__(self, space: Box, features_dim: int = 256, *, ortho_init: bool = True) -> None:
        super().__init__(space, features_dim, ortho_init=ortho_init)

    def build_convolutions(self, channels: int, sides: Sequence[int]) -> nn.Sequential:
        layers: list[nn.Module] = []
        for inputs, width in zip((channels, 16, 32), (16, 32, 32), strict=True):
            first = nn.Conv2d if layers else PixelConv
            layers += [first(inputs, width, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(width), Residual(width)]
        return nn.Sequential(*layers, nn.ReLU(), nn.Flatten())


class Residual(nn.Module):
    """A block of two convolutions of `width` channels, whose output is added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.relu(self.first(F.relu(x))))


class FlatPicture(Encoder):
    """An encoder of uint8 pictures without parameters: every pixel is a feature, from 0 to 1.

    For boards such as MinAtar's on a CPU, where hidden layers alone cost a fraction of a convolution.
    """

    name, least = "flat", 1

    def __init__(self, space: Box, *, ortho_init: bool = True) -> None:
        super().__init__()
        self.features_dim, self.scale = space.size, max(1.0, *space.high)

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(-3).float()
        return pixels if self.scale == 1.0 else pixels / self.scale


PICTURE_ENCODERS: dict[str, type[NatureCNN | SmallCNN | ImpalaCNN | FlatPicture]] = {
    kind.name: kind for kind in (NatureCNN, ImpalaCNN, SmallCNN, FlatPicture)
}


def halvings(sides: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the strides, down and across, of layers that halve sides until they are at most 12."""
    down, across = (max(0, math.ceil(math.log2(side / BOARD))) for side in sides)
    return [(1 + (time < down), 1 + (time < across)) for time in range(max(down, across))]


def choose_by_size(space: Box) -> type[NatureCNN | SmallCNN]:
    """Returns the encoder that pictures of a space get by default: `SmallCNN` where `NatureCNN` takes only larger ones."""
    return SmallCNN if min(sort_dimensions(space)[1]) < NatureCNN.least else NatureCNN


def advice(sides: Sequence[int]) -> str:
    """Returns what to do about pictures of these sides that an encoder does not take."""
    own = "`encoder='module:factory'` with a network of your own"
    fit = [f"encoder={kind.name!r}" for kind in PICTURE_ENCODERS.values() if min(sides) >= kind.least > 1]
    return f"use {' or '.join(fit)}, or {own}" if fit else f"enlarge them, or pass {own}"


def prepare_images(x: Tensor) -> Tensor:
    """Returns uint8 images [batch, channels, height, width] as floats, in the order and data type that suit convolutions.

    Channels lie together in memory.
    """
    device = x.device.type
    computes = device != "meta" and torch.is_autocast_enabled(device)  # tensors without values know no autocast
    dtype = torch.get_autocast_dtype(device) if computes else torch.float32
    return x.movedim(-3, -1).contiguous().movedim(-1, -3).to(dtype)  # also under vmap, which knows no memory formats
