"""Priorities: drawn in proportion, summed without drift, never where they are zero."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import rl_training
from rl_training.experience.sum_tree import Levels, add_up, draw, empty_tree, write
from rl_training.functional import importance_weights
from tests.experience.test_replay import chi_square, limit

ALMOST_ONE = 1 - 1e-16
THREE_LEVELS = 128 * 128 + 3_000


def tree_of(priority: Tensor) -> Levels:
    tree = empty_tree(len(priority))
    write(tree, torch.arange(len(priority)), priority)
    return tree


def total(tree: Levels) -> float:
    return tree[-1].sum().item()


def uniform(num: int, seed: int = 0) -> Tensor:
    return torch.rand(num, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_known_probabilities_and_weights() -> None:
    tree = tree_of(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64) ** 0.6)
    row, probability = draw(tree, uniform(100_000))
    counts = row.bincount(minlength=4)
    each = torch.stack([probability[row == i].unique().squeeze() for i in range(4)])
    assert each.tolist() == pytest.approx([0.1482, 0.2247, 0.2866, 0.3405], abs=5e-5)
    assert chi_square(counts, each) < limit(4)
    assert importance_weights(each, 0.4).tolist() == pytest.approx([1, 0.8467, 0.7682, 0.7170], abs=5e-5)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights_undo_the_sampling(beta: float) -> None:
    probability = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    weight = importance_weights(probability, beta)
    assert weight.max() == 1
    value = torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64)
    if beta == 1:  # in expectation the uniform mean
        assert ((probability * weight * value).sum() / (probability * weight).sum()).item() == pytest.approx(4 / 3)
    torch.testing.assert_close(weight, (probability.min() / probability) ** beta)


@pytest.mark.parametrize("num", [1, 5, 128, 129, 16_384, THREE_LEVELS])
def test_every_row_has_its_share_of_the_numbers(num: int) -> None:
    """Numbers that lie in the middle of a row's interval, and just inside of its ends, give that row."""
    priority = 0.01 + uniform(num, seed=num)
    priority[uniform(num, seed=num + 1) < 0.2] = 0.0
    priority[num // 2] = 1.0
    tree, rows = tree_of(priority), priority.nonzero().squeeze(1)
    ends = priority.cumsum(0)[rows] / priority.sum()
    width = priority[rows] / priority.sum()
    for place in (1e-3, 0.5, 1 - 1e-3):
        found, probability = draw(tree, ends - width * (1 - place))
        assert torch.equal(found, rows)
        torch.testing.assert_close(probability, width)


def test_the_draws_of_a_large_tree_follow_the_priorities() -> None:
    priority = uniform(THREE_LEVELS, seed=3) ** 4
    counts = torch.zeros(67)
    for seed in range(10):
        counts += (draw(tree_of(priority), uniform(10_000, seed))[0] // 300).bincount(minlength=67)
    share = torch.stack([block.sum() for block in priority.split(300)]) / priority.sum()
    used = share > 0
    assert len(share) <= 67
    assert counts[len(share) :].sum() == 0
    assert chi_square(counts[: len(share)][used], share[used].float()) < limit(int(used.sum()))


def test_the_total_stays_the_sum() -> None:
    tree, expected, gen = empty_tree(THREE_LEVELS), torch.zeros(THREE_LEVELS, dtype=torch.float64), torch.Generator()
    for update in range(1000):
        row = torch.randperm(THREE_LEVELS, generator=gen)[:100]
        value = uniform(100, update) * 10.0 ** (update % 7 - 3)  # sizes that would leave a residue behind
        write(tree, row, value)
        expected[row] = value
    assert torch.equal(tree[0].view(-1)[:THREE_LEVELS], expected)
    assert total(tree) == pytest.approx(expected.sum().item(), rel=1e-13)
    write(tree, torch.arange(THREE_LEVELS), torch.zeros(THREE_LEVELS))
    assert total(tree) == 0.0


def test_duplicates_in_a_write_leave_consistent_sums() -> None:
    tree = tree_of(torch.ones(300))
    row = torch.tensor([7, 7, 200, 7, 200])
    write(tree, row, torch.tensor([5.0, 5.0, 3.0, 5.0, 3.0]))
    assert total(tree) == 298 + 5 + 3
    write(tree, torch.tensor([7, 7]), torch.tensor([1.0, 2.0]))  # either may win, but only one
    assert tree[0].view(-1)[7].item() in (1.0, 2.0)
    assert total(tree) == tree[0].sum().item()


@pytest.mark.parametrize("num", [5, 300, THREE_LEVELS])
def test_rows_of_priority_zero_are_never_drawn(num: int) -> None:
    priority = torch.zeros(num, dtype=torch.float64)
    alive = torch.tensor(sorted({1, num // 2, num - 2}))
    priority[alive] = torch.tensor([0.1, 0.7, 1e-9], dtype=torch.float64)[: len(alive)]
    tree = tree_of(priority)
    edges = torch.tensor([0.0, 5e-324, 0.125, ALMOST_ONE], dtype=torch.float64)
    ends = (priority.cumsum(0)[alive] / priority.sum()).clamp(max=ALMOST_ONE)
    row, probability = draw(tree, torch.cat([edges, ends, uniform(20_000)]))
    assert set(row.tolist()) <= set(alive.tolist())
    assert (probability > 0).all()
    assert row[0].item() == 1
    assert row[3].item() == num - 2


@pytest.mark.parametrize("num", [1, 128, 129, THREE_LEVELS])
def test_the_ends_of_the_interval(num: int) -> None:
    row, probability = draw(tree_of(torch.ones(num)), torch.tensor([0.0, ALMOST_ONE], dtype=torch.float64))
    assert row.tolist() == [0, num - 1]
    assert probability.tolist() == pytest.approx([1 / num] * 2)


def test_the_last_number_where_sums_round_differently() -> None:
    """The total and the running sum of a block need not be equal to the last bit."""
    for seed in range(300):
        priority = uniform(140, seed)
        priority[120:] = 0.0
        row, probability = draw(tree_of(priority), torch.tensor([ALMOST_ONE], dtype=torch.float64))
        assert row.item() == 119
        assert probability > 0


def test_a_number_on_the_edge_of_a_block() -> None:
    """Rounding may put what is left after a block below zero: the next block's leading zeros are still not drawn."""
    first, gen = torch.tensor(0.1, dtype=torch.float64), torch.Generator().manual_seed(0)
    second = torch.rand(10_000, generator=gen, dtype=torch.float64)
    total = first + second
    lost = (total - second) > first  # what is left for the second block is negative
    numbers = (first / total)[lost][:50].tolist()
    for number, other in zip(numbers, second[lost][:50].tolist(), strict=True):
        priority = torch.zeros(256, dtype=torch.float64)
        priority[3], priority[200] = first, other
        around = torch.tensor([number], dtype=torch.float64)
        around = torch.cat(
            [around, around.nextafter(torch.ones(1).double()), around.nextafter(torch.zeros(1).double())]
        )
        row, probability = draw(tree_of(priority), around)
        assert set(row.tolist()) <= {3, 200}
        assert (probability > 0).all()


def test_sums_can_be_made_anew() -> None:
    """As when the priorities were read from a file."""
    tree, other = tree_of(uniform(20_000, 1)), tree_of(uniform(20_000, 2))
    tree[0].copy_(other[0])
    add_up(tree, torch.arange(20_000))
    assert all(map(torch.equal, tree, other))
    assert all(map(torch.equal, draw(tree, uniform(500)), draw(other, uniform(500))))


def test_the_loop_gives_the_surprise_back() -> None:
    agent = rl_training.DQN("CartPole-v1", prioritized=True, learning_starts=50, buffer_size=200, seed=0)
    agent.learn(100, progress=False)
    assert len(agent.snapshot().state["experience"]["priority"][0].unique()) > 20  # 13 updates of 32 rows
    agent.close()
