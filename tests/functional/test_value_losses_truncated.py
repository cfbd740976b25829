import pytest
import torch

from rl_training.functional import truncated_mixture


def test_the_largest_of_all_critics_together_are_left_out() -> None:
    quantiles = torch.arange(10.0).expand(2, 3, 10)
    kept = truncated_mixture(quantiles, 2)
    assert kept.shape == (3, 16)
    assert kept.max() == 7
    assert kept[0].tolist() == sorted([*range(8)] * 2)


def test_a_hopeful_critic_loses_more_than_its_share() -> None:
    """What is dropped is counted per critic but chosen among all."""
    quantiles = torch.stack([torch.arange(4.0), 10 + torch.arange(4.0)]).unsqueeze(1)
    assert truncated_mixture(quantiles, 1).tolist() == [[0.0, 1.0, 2.0, 3.0, 10.0, 11.0]]
    assert truncated_mixture(quantiles, 2).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_rows_are_sorted_on_their_own() -> None:
    quantiles = torch.randn(3, 50, 7, generator=torch.Generator().manual_seed(0))
    kept = truncated_mixture(quantiles, 2)
    for row in range(50):
        expected = sorted(quantiles[:, row].flatten().tolist())[:15]
        assert kept[row].tolist() == pytest.approx(expected)


def test_the_mean_falls_with_what_is_dropped_and_nothing_dropped_keeps_all() -> None:
    quantiles = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    means = torch.stack([truncated_mixture(quantiles, dropped).mean(-1) for dropped in range(5)])
    assert (means.diff(dim=0) < 0).all()
    torch.testing.assert_close(means[0], quantiles.mean((0, 2)))
