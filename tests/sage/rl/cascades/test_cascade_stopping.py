"""Optimal stopping against the enumeration of every cascade there is, and exact expectations against replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from cascade_replay import replay_cascade

from sage.policies.learned_policy import Training
from sage.rl.cascades.cascade_stopping import History, TaskTypes, as_cascade, follow, solve, taken_quality, types_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from tests.sage.evidence.cascades.test_cascade_data import small_table

TRAINING = Training("optimal_stopping", "", "replay", "quality", 0, 0)
PRICES = (0.0, 0.3, 2.0)


@dataclass(frozen=True)
class Tree:
    """A whole cascade: what is done now and, after an attempt, after each verdict."""

    action: int
    if_accepted: Tree | None = None
    if_rejected: Tree | None = None


def every_tree(num_models: int, tried: frozenset[int] = frozenset()) -> Iterator[Tree]:
    if tried:
        yield Tree(num_models)
    for model in set(range(num_models)) - tried:
        following = list(every_tree(num_models, tried | {model}))
        yield from (Tree(model, yes, no) for yes in following for no in following)


def value(types: TaskTypes, tree: Tree, price: float, history: History = (), chance: np.ndarray | None = None) -> float:
    chance = types.share if chance is None else chance
    if tree.if_accepted is None or tree.if_rejected is None:
        return float(chance @ taken_quality(types, history))
    k, accepted = tree.action, types.accepted[:, tree.action]
    following = value(types, tree.if_accepted, price, (*history, (k, True)), chance * accepted)
    following += value(types, tree.if_rejected, price, (*history, (k, False)), chance * (1 - accepted))
    return following - price * float(chance @ types.cost[:, k])


def random_types(num_models: int, seed: int) -> TaskTypes:
    """Graded qualities that depend on the verdict too."""
    generator = np.random.default_rng(seed)
    share = generator.dirichlet(np.ones(4))
    return TaskTypes(share, *generator.random((4, 4, num_models)))


@pytest.mark.parametrize("num_models", [1, 2, 3])
@pytest.mark.parametrize("price", PRICES)
def test_no_cascade_of_all_that_there_are_is_better(num_models: int, price: float):
    trees = list(every_tree(num_models))
    for seed in range(5 if num_models < 3 else 1):
        types = random_types(num_models, seed)
        assert solve(types, price).value == pytest.approx(max(value(types, tree, price) for tree in trees))


def test_successes_that_come_together_are_worth_less_than_independent_ones():
    """Two models of rate one half: always on the same tasks, the second adds nothing; independent, it adds a quarter."""
    same = np.array([[1.0, 1.0], [0.0, 0.0]])
    independent = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    perfect = SimulatedVerifier(1.0, 0.0)
    assert solve(types_of(same, np.zeros_like(same), perfect), 0.0).value == pytest.approx(0.5)
    assert solve(types_of(independent, np.zeros_like(independent), perfect), 0.0).value == pytest.approx(0.75)


@pytest.mark.parametrize("verifier", [SimulatedVerifier(0.95, 0.1), SimulatedVerifier(0.8, 0.3, 0.5)])
def test_the_expectation_is_that_of_replayed_episodes(verifier: SimulatedVerifier):
    table = small_table()
    types = types_of(table.score, table.cost_usd, verifier)
    solution = solve(types, 0.3)
    expected = follow(types, solution.values)
    cascade = as_cascade(solution, table.models, price=0.3, training=TRAINING)
    data = replay_cascade(table, cascade, 40_000, verifier=verifier, seed=0)
    assert types.share @ (expected.quality - 0.3 * expected.cost) == pytest.approx(solution.value)
    assert data.quality.mean() == pytest.approx(types.share @ expected.quality, abs=0.01)
    assert data.total_cost.mean() == pytest.approx(types.share @ expected.cost, abs=0.01)


def test_no_more_attempts_than_allowed():
    types = random_types(3, 0)
    one = solve(types, 0.1, max_attempts=1)
    quality = types.accepted * types.quality_accepted + (1 - types.accepted) * types.quality_rejected
    assert one.value == pytest.approx((types.share @ (quality - 0.1 * types.cost)).max())
