"""A single rank gets back what it gives, without a message; counts and rows are divided equally."""

import torch

from rl_training.core import ALONE, Ranks


class Second(Ranks):
    """The second of three."""

    number, rank = 3, 1


def test_a_single_rank_exchanges_nothing() -> None:
    episodes, weights = [("an episode",)], torch.tensor([1.0, 2.0])
    ALONE.broadcast([weights])
    assert weights.tolist() == [1.0, 2.0]
    assert ALONE.exchange_is_free
    assert ALONE.exchange_episodes(episodes) is episodes
    assert (ALONE.total(5), list(ALONE.rows(5))) == (5, [0, 1, 2, 3, 4])
    assert ALONE.synchronize(True, dict)
    assert not ALONE.synchronize(False, dict)


def test_ranks_share_rows_equally() -> None:
    assert not Second().exchange_is_free
    assert Second().total(2) == 6
    assert list(Second().rows(6)) == [2, 3]
