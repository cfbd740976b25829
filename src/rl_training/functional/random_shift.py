"""Random shifts of pictures, which keep convolutions from learning where exactly things were (DrQ).

Kostrikov et al., 2020, arXiv:2004.13649.
"""

from __future__ import annotations

import torch
from torch import Tensor


def random_shift(pictures: Tensor, most: int, *, channels_last: bool) -> Tensor:
    """Returns pictures [..., batch, *picture], each moved by up to `most` pixels down or up and right or left.

    The border's pixels fill what becomes free, as if the picture had been padded by them and cropped. All channels of a
    picture, such as stacked frames, move alike, and so do those of other leading dimensions, such as time. Takes two
    numbers per picture from torch's generator of the device.
    """
    batch = pictures.shape[-4]
    drawn = torch.rand(2, batch, device=pictures.device)
    down, across = (drawn * (2 * most + 1)).long().clamp(max=2 * most) - most
    return shift(pictures, down, across, channels_last=channels_last)


def shift(pictures: Tensor, down: Tensor, across: Tensor, *, channels_last: bool) -> Tensor:
    """Returns pictures [..., batch, *picture] moved by whole pixels, `down` and `across` [batch]; borders are repeated."""
    height, width = pictures.shape[-3:-1] if channels_last else pictures.shape[-2:]
    places = torch.arange(max(height, width), device=pictures.device)
    row = (places[:height] - down.unsqueeze(-1)).clamp(0, height - 1)
    column = (places[:width] - across.unsqueeze(-1)).clamp(0, width - 1)
    pixel = row.unsqueeze(-1) * width + column.unsqueeze(-2)  # [batch, height, width]: where each comes from
    if channels_last:
        flat, index = pictures.flatten(-3, -2), pixel.flatten(1).unsqueeze(-1)
        return flat.gather(-2, index.expand_as(flat)).view_as(pictures)
    flat, index = pictures.flatten(-2), pixel.flatten(1).unsqueeze(-2)
    return flat.gather(-1, index.expand_as(flat)).view_as(pictures)
