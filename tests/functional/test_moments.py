import torch
from torch import Tensor

from rl_training.core import Ranks
from rl_training.functional import RunningMoments, merge_moments

EMPTY = RunningMoments(*(torch.tensor(x, dtype=torch.float64) for x in (0.0, 1.0, 0.0)))


def test_merged_moments_are_those_of_the_concatenation() -> None:
    gen = torch.Generator().manual_seed(0)
    chunks = [50 + scale * torch.randn(num, generator=gen).double() for num, scale in ((1, 1), (7, 3), (200, 0.1))]
    moments = EMPTY
    for chunk in chunks:
        moments = merge_moments(moments, chunk)
    rows = torch.cat(chunks)
    torch.testing.assert_close(moments.mean, rows.mean())
    torch.testing.assert_close(moments.var, rows.var(correction=0))
    assert moments.count.item() == 208


def test_moments_are_kept_per_column() -> None:
    rows = torch.tensor([[1.0, 10.0], [3.0, 10.0]], dtype=torch.float64)
    start = RunningMoments(torch.zeros(2).double(), torch.ones(2).double(), torch.tensor(0.0).double())
    moments = merge_moments(start, rows)
    assert moments.mean.tolist() == [2, 10]
    assert moments.var.tolist() == [1, 0]


def test_the_starting_variance_has_no_weight() -> None:
    assert merge_moments(EMPTY, torch.full((4,), 7.0, dtype=torch.float64)).var.item() == 0


def test_no_rows_change_nothing() -> None:
    moments = merge_moments(EMPTY, torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert merge_moments(moments, torch.empty(0, dtype=torch.float64)) == moments
    assert merge_moments(EMPTY, torch.empty(0, dtype=torch.float64)) == EMPTY


class Two(Ranks):
    """Two ranks, of which the other one has the same rows."""

    number = 2

    def sum(self, x: Tensor) -> Tensor:
        return 2 * x


def test_ranks_without_rows_change_nothing() -> None:
    none, rows = torch.empty(0, dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert merge_moments(EMPTY, none, Two()) == EMPTY
    moments = merge_moments(merge_moments(EMPTY, none, Two()), rows, Two())
    assert [x.item() for x in moments] == [1.5, 0.25, 4]
    assert merge_moments(moments, none, Two()) == moments
