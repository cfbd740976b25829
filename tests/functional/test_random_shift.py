"""Random shifts of pictures: known answers, and what moves alike."""

from __future__ import annotations

import pytest
import torch

from rl_training.functional.random_shift import random_shift, shift

PICTURE = torch.arange(12, dtype=torch.uint8).view(1, 3, 4)  # channels first: one of 3 x 4 pixels


@pytest.mark.parametrize(
    ("down", "across", "expected"),
    [
        (0, 0, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        (1, 0, [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]),
        (0, -2, [[2, 3, 3, 3], [6, 7, 7, 7], [10, 11, 11, 11]]),
        (-4, 1, [[8, 8, 9, 10]] * 3),
    ],
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_borders_are_repeated(down: int, across: int, expected: list, channels_last: bool) -> None:
    pictures = (PICTURE.permute(1, 2, 0) if channels_last else PICTURE).unsqueeze(0)
    moved = shift(pictures, torch.tensor([down]), torch.tensor([across]), channels_last=channels_last)
    assert moved.dtype == torch.uint8
    assert moved.flatten().tolist() == [number for row in expected for number in row]


@pytest.mark.parametrize("channels_last", [False, True])
def test_frames_and_times_move_alike_and_pictures_by_draws_of_their_own(channels_last: bool) -> None:
    torch.manual_seed(0)
    one = torch.randint(256, (9, 9), dtype=torch.uint8)
    pictures = one.view(1, 1, 9, 9).expand(64, 4, 9, 9)  # the same everywhere
    pictures = (pictures.permute(0, 2, 3, 1) if channels_last else pictures).expand(5, *pictures.shape[:1], -1, -1, -1)
    pictures = pictures if not channels_last else one.view(1, 1, 9, 9, 1).expand(5, 64, 9, 9, 4)
    moved = random_shift(pictures, 2, channels_last=channels_last)
    moved = moved.movedim(-1, 2) if channels_last else moved
    assert moved.shape == (5, 64, 4, 9, 9)
    assert torch.equal(moved, moved[:1, :, :1].expand_as(moved))
    ways = {
        tuple(shift(one.view(1, 1, 9, 9), torch.tensor([d]), torch.tensor([a]), channels_last=False).flatten().tolist())
        for d in range(-2, 3)
        for a in range(-2, 3)
    }
    found = {tuple(picture.flatten().tolist()) for picture in moved[0, :, 0]}
    assert len(ways) == 25
    assert found <= ways
    assert len(found) > 15


def test_all_shifts_are_as_likely_and_none_is_the_identity() -> None:
    torch.manual_seed(0)
    row = torch.arange(3, dtype=torch.uint8).view(1, 1, 1, 3).expand(9_000, -1, -1, -1)
    assert torch.equal(random_shift(row, 0, channels_last=False), row)
    counts = torch.bincount(
        random_shift(row, 1, channels_last=False)[:, 0, 0, 0] * 3
        + random_shift(row, 1, channels_last=False)[:, 0, 0, 0]
    )  # two draws: independent
    middle = random_shift(row, 1, channels_last=False)[:, 0, 0, 1]
    assert (torch.bincount(middle, minlength=3) / 9_000 - 1 / 3).abs().max() < 0.02
    # The first pixel is 0 after a shift to the right or none, and 1 after one to the left.
    torch.testing.assert_close(counts / 9_000, torch.tensor([4, 2, 0, 2, 1]) / 9, rtol=0, atol=0.02)
