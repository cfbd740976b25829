"""Sequences: whole pieces of episodes, each row once, time kept, padding without weight."""

import pytest
import torch
from torch import Tensor

from rl_training.core import Pass, RolloutBatch
from rl_training.experience import Rollout
from rl_training.experience.rollout import episode_pieces
from tests.experience.test_rollout import Recorder
from tests.rollouts import random_steps


def starts(num_steps: int, num_envs: int, *, rate: float, seed: int = 0) -> Tensor:
    """Where episodes begin: at random, not necessarily at the first row."""
    return torch.rand(num_steps, num_envs, generator=torch.Generator().manual_seed(seed)) < rate


def filled(first: Tensor, *, seed: int = 0) -> Rollout:
    num_steps, num_envs = first.shape
    rollout = Rollout(num_steps, seed=seed)
    rollout.add(random_steps(num_steps, num_envs)._replace(columns={"first": first}))
    rollout.prepare(Recorder())
    return rollout


def pieces_in(index: Tensor) -> list[list[int]]:
    """The columns of a batch without their padding, which may only stand at the end."""
    columns = []
    for column in index.unbind(1):
        length = int((column >= 0).sum())
        assert (column[length:] == -1).all()
        columns.append(column[:length].tolist())
    return columns


def test_pieces_by_hand() -> None:
    first = torch.tensor([[1, 0], [0, 0], [1, 0], [1, 0], [0, 1]]).bool()
    # Rows are numbered time by time: row = 2 * time + env.
    assert [piece.tolist() for piece in episode_pieces(first)] == [[0, 2], [4], [6, 8], [1, 3, 5, 7], [9]]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("num_steps", "num_envs"), [(1, 1), (1, 5), (20, 1), (17, 4)])
def test_pieces_hold_every_row_once_and_never_cross_a_start(rate: float, num_steps: int, num_envs: int) -> None:
    first = starts(num_steps, num_envs, rate=rate)
    pieces = episode_pieces(first)
    assert sorted(torch.cat(pieces).tolist()) == list(range(num_steps * num_envs))
    flags = first.flatten()
    for piece in pieces:
        assert (piece.diff() == num_envs).all()  # the next time of the same environment
        assert not flags[piece[1:]].any()
        assert flags[piece[0]] or piece[0] < num_envs  # begins with an episode or with the rollout
    wanted = int((first[1:]).sum()) + num_envs
    assert len(pieces) == wanted


def equal_parts(piece: list[int], most: int) -> list[list[int]]:
    """Cuts a piece into as few parts as possible of at most so many rows, whose lengths differ by at most one."""
    number = -(-len(piece) // most)
    lengths = [len(piece) // number + (part < len(piece) % number) for part in range(number)]
    rows = iter(piece)
    return [[next(rows) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("batch_size", [1, 10, 16, 40, 80, 1000])
def test_every_row_comes_once_per_epoch_in_the_order_of_time(rate: float, batch_size: int) -> None:
    first = starts(20, 4, rate=rate)
    rollout = filled(first)
    expected = sorted(part for piece in episode_pieces(first) for part in equal_parts(piece.tolist(), batch_size))
    epochs = [list(epoch) for epoch in rollout.draws(Pass(3, batch_size, sequences=True))]
    assert len(epochs) == 3
    for batches in epochs:
        assert sorted(piece for index in batches for piece in pieces_in(index)) == expected
        assert all(index.shape[0] == max(map(len, pieces_in(index))) for index in batches)


def test_without_a_batch_size_everything_is_one_batch() -> None:
    first = starts(20, 4, rate=0.1)
    ((index,),) = [list(epoch) for epoch in filled(first).draws(Pass(1, None, sequences=True))]
    assert int((index >= 0).sum()) == 80
    assert index.shape[1] == len(episode_pieces(first))


@pytest.mark.parametrize("batch_size", [32, 64, 128, 256])
def test_batches_are_near_the_size_asked_for(batch_size: int) -> None:
    """A batch may miss its size by the longest piece, never by more; their number is the rollout over the size."""
    first = starts(64, 16, rate=0.1)
    longest = max(map(len, episode_pieces(first)))
    for epoch in filled(first).draws(Pass(4, batch_size, sequences=True)):
        sizes = [int((index >= 0).sum()) for index in epoch]
        assert len(sizes) == 1024 // batch_size
        assert sum(sizes) == 1024
        assert all(abs(size - batch_size) <= longest for size in sizes)


def test_pieces_longer_than_batches_are_cut() -> None:
    first = torch.zeros(40, 2, dtype=torch.bool)
    (epoch,) = [list(epoch) for epoch in filled(first).draws(Pass(1, 8, sequences=True))]
    assert [index.shape for index in epoch] == [(8, 1)] * 10


def test_the_order_is_shuffled_by_the_seed_alone() -> None:
    first = starts(20, 4, rate=0.3)

    def order(seed: int, global_seed: int) -> list[list[int]]:
        torch.manual_seed(global_seed)
        epochs = filled(first, seed=seed).draws(Pass(2, 16, sequences=True))
        return [piece for epoch in epochs for index in epoch for piece in pieces_in(index)]

    assert order(1, 0) == order(1, 9) != order(2, 0)
    both = order(1, 0)
    assert both[: len(both) // 2] != both[len(both) // 2 :]  # every epoch anew


def test_gather_gives_padding_no_weight_and_keeps_the_weights_of_rows() -> None:
    column = torch.arange(6.0) / 10
    storage = RolloutBatch(
        obs={"x": torch.arange(12.0).view(6, 2)},
        action=torch.arange(6),
        log_prob=column,
        advantage=column,
        value=column,
        target=column,
        weight=torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
        columns={},
    )
    index = torch.tensor([[1, 5], [2, -1], [3, -1]])
    rollout = Rollout(1, seed=0)
    batch = rollout.gather(storage, index)
    assert batch.weight.tolist() == [[1, 1], [0, 0], [1, 0]]
    assert batch.action[:, 0].tolist() == [1, 2, 3]
    assert batch.action[0].tolist() == [1, 5]
    assert batch.obs["x"].shape == (3, 2, 2)
    assert torch.equal(batch.obs["x"][2, 0], storage.obs["x"][3])
    assert batch.advantage[2, 0] == storage.advantage[3]
    first = rollout.gather(storage, torch.tensor([0]))  # which padding points to, and which still counts
    assert first.weight.tolist() == [1]
