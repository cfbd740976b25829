"""What a cell borrows from others: from its role's categories, or from its category in other roles."""

import numpy as np

from sage.policies.cells import Cells
from sage.policies.policy import Contexts
from sage.rl.cell_posterior import cell_posterior, peers_of

ROLES = ("architect", "coder", "debugger", "planner", "reviewer", "test_engineer")
CATEGORIES = ("a", "b", "c", "d", "e", "f")


def posterior(gain: np.ndarray, *, noise: float, rows_per_cell: int = 12, incumbent: np.ndarray | None = None, seed=0):
    """Of outcomes [role, category] -> true gain of model 1 over model 0, with noise; cells in the order of `Cells`."""
    rng = np.random.default_rng(seed)
    role, category = (part.ravel().repeat(rows_per_cell) for part in np.indices(gain.shape))
    values = noise * rng.standard_normal((len(role), 2))
    values[:, 1] += gain[role, category]
    tasks = np.array([f"t{i}" for i in range(len(role))])
    contexts = Contexts(np.array(ROLES)[role], np.array(CATEGORIES)[category], np.zeros((len(role), 0)), tasks)
    cells = Cells.of(contexts)
    usual = np.zeros(len(role), np.int64) if incumbent is None else incumbent[role]
    mean, deviation, _ = cell_posterior(values, cells, cells.index(contexts), usual, tasks)
    return mean[: len(cells)].reshape(*gain.shape, 2), deviation[: len(cells)].reshape(*gain.shape, 2)


def test_new_tasks_scatter_as_the_incumbents_rewards_do():
    tasks = np.array([f"t{i}" for i in range(40)])
    contexts = Contexts(np.full(40, "coder"), np.full(40, "a"), np.zeros((40, 0)), tasks)
    rewards = np.column_stack([np.arange(40) % 2, np.ones(40)]).astype(float)
    cells = Cells.of(contexts)
    found = cell_posterior(rewards, cells, cells.index(contexts), np.zeros(40, np.int64), tasks)
    # One cell, then its role, of which new categories have a number of tasks that nobody knows.
    np.testing.assert_allclose(found.next_tasks, [[0, 0.5 / np.sqrt(39)], [0, 0]])


def test_what_a_category_shows_in_all_roles_is_learned_together():
    truth = np.tile(np.linspace(-0.3, 0.3, 6), (6, 1))
    mean, deviation = posterior(truth, noise=0.5)
    alone = 0.5 * np.sqrt(2 / 12)  # the standard error of one cell by itself
    assert np.abs(mean[..., 1] - truth).mean() < alone / 2
    assert (deviation[..., 1] < alone * 0.75).all()
    assert (mean[..., 0] == 0).all()  # the incumbent
    assert (deviation[..., 0] == 0).all()


def test_roles_that_differ_are_not_averaged_away():
    truth = np.tile(np.linspace(-0.3, 0.3, 6)[:, None], (1, 6))
    mean, _ = posterior(truth, noise=0.5)
    assert np.abs(mean[..., 1] - truth).mean() < 0.1


def test_deviations_are_as_large_as_the_errors():
    truth = np.tile(np.linspace(-0.3, 0.3, 6), (6, 1)) + 0.1 * np.random.default_rng(5).standard_normal((6, 6))
    errors = []
    for seed in range(5):
        mean, deviation = posterior(truth, noise=0.5, seed=seed)
        errors.append(((mean - truth[..., None])[..., 1] / deviation[..., 1]).ravel())
    assert 0.7 < np.std(np.concatenate(errors)) < 1.15


def test_gains_over_different_incumbents_are_not_pooled():
    cells = Cells((("architect", "a"), ("architect", "b"), ("coder", "a"), ("coder", "b"), ("planner", "a")))
    assert peers_of(cells, np.array([0, 0, 0, 0, 1])).tolist() == [0, 2, 0, 2, 1]
    truth = np.tile(np.linspace(-0.3, 0.3, 6), (6, 1))
    mean, _ = posterior(truth, noise=0.2, incumbent=np.array([0, 0, 0, 1, 1, 1]))
    np.testing.assert_allclose(mean[:3, :, 1], truth[:3], atol=0.12)
    np.testing.assert_allclose(mean[3:, :, 0], -truth[3:], atol=0.12)


def test_one_role_is_judged_by_its_own_categories_only():
    truth = np.linspace(-0.3, 0.3, 6)[None]
    mean, deviation = posterior(truth, noise=0.5)
    assert np.isfinite(mean).all()
    assert (np.abs(mean[..., 1]) < 0.5).all()
    assert (deviation[..., 1] > 0.1).all()
