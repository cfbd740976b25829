import pytest
import torch

from rl_training.functional import RunningMoments, explained_variance, merge_moments

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


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ((1.0, 2.0, 3.0, 4.0), 1.0),
        ((6.0, 7.0, 8.0, 9.0), 1.0),  # a constant offset is not variance
        ((0.0, 0.0, 0.0, 0.0), 0.0),
        ((4.0, 3.0, 2.0, 1.0), -3.0),  # the residual is twice the target, centred
        ((0.5, 1.0, 1.5, 2.0), 0.75),
    ],
)
def test_explained_variance_known_answers(prediction: tuple[float, ...], expected: float) -> None:
    target = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(torch.tensor(prediction), target, torch.ones_like(target)).item() == pytest.approx(
        expected
    )


def test_explained_variance_of_a_constant_target_is_finite() -> None:
    assert explained_variance(torch.full((3,), 2.0), torch.full((3,), 5.0), torch.ones(3)).item() == 1


def test_rows_of_weight_zero_do_not_count_in_explained_variance() -> None:
    prediction, target = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 4.0, -9.0])
    expected = explained_variance(prediction[:2], target[:2], torch.ones(2))
    assert explained_variance(prediction, target, torch.tensor([1.0, 1.0, 0.0])) == expected
