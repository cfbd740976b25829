"""An allowance spent where it saves most: the knapsack, and what errors change in it."""

import numpy as np
import pytest

from sage.rl.allowance import Question, onto_cells, spend_allowance


def question(saving, gain, errors=(), cell=None) -> Question:
    cell = np.arange(len(saving)) if cell is None else np.array(cell)
    return Question(np.array(saving, float), np.array(gain, float), tuple(errors), cell)


def test_without_errors_it_is_the_fractional_knapsack():
    asked = question([3.0, 1.0, 2.0], [-0.03, -0.02, -0.01])
    found = spend_allowance(asked, 0.025)
    assert found.share == pytest.approx([0.5, 0.0, 1.0], abs=1e-3)
    assert found.worth == pytest.approx(
        0.01, rel=0.01
    )  # of quality for the last dollar, which is saved in the first cell


def test_a_model_that_is_cheaper_and_better_pays_for_others():
    asked = question([1.0, 2.0], [0.01, -0.04])
    assert spend_allowance(asked, 0.01).share == pytest.approx([1.0, 0.5], abs=1e-3)
    assert spend_allowance(question([-1.0, -2.0], [0.01, 0.02]), 0.01).share.tolist() == [0.0, 0.0]  # dearer


def test_an_allowance_that_is_never_used_up_leaves_nothing_unsaved():
    asked = question([1.0, 2.0], [-0.01, -0.04], [(2.0, np.eye(2) * 0.01**2)])
    assert spend_allowance(asked, 0.2).share == pytest.approx([1.0, 1.0])


def test_an_error_takes_its_part_of_the_allowance():
    asked = question([1.0], [-0.04], [(2.0, np.array([[0.03**2]]))])
    assert spend_allowance(asked, 0.01).share == pytest.approx([0.01 / (0.04 + 2 * 0.03)], rel=1e-3)


def test_errors_of_different_cells_cancel_so_that_shares_spread():
    asked = question([1.0, 1.0], [-0.02, -0.02], [(2.0, np.eye(2) * 0.03**2)])
    found = spend_allowance(asked, 0.01).share
    assert found == pytest.approx([0.01 / (0.04 + 2 * 0.03 * 2**0.5)] * 2, rel=1e-2)
    alone = spend_allowance(asked.select(np.array([True, False])), 0.01).share
    assert found.sum() > 1.1 * alone.sum()


@pytest.mark.parametrize("seed", range(5))
def test_no_other_shares_within_the_allowance_save_more(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6)) * 0.02
    saving, gain = rng.normal(0.5, 0.5, 6), rng.normal(-0.03, 0.04, 6)
    asked = question(saving, gain, [(1.5, root @ root.T)], [0, 0, 1, 1, 2, 2])
    best = spend_allowance(asked, 0.02).share
    assert asked.used(best) <= 0.02 + 1e-9
    assert (np.bincount(asked.cell, best) <= 1 + 1e-9).all()
    for other in onto_all(np.concatenate([best + rng.normal(0, 0.1, (500, 6)), rng.random((500, 6))]), asked.cell):
        used = asked.used(other)
        other = other * min(1.0, 0.02 / used) if used > 0 else other
        assert saving @ other <= saving @ best + 2e-3 * abs(saving).sum()


def onto_all(shares, cell):
    return [onto_cells(share, cell) for share in shares]


def test_shares_of_a_full_cell_are_the_nearest_ones():
    found = onto_cells(np.array([0.9, 0.5, -0.2, 0.3]), np.array([0, 0, 0, 1]))
    assert found == pytest.approx([0.7, 0.3, 0.0, 0.3])
