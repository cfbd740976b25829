"""Faults of single columns: each is found with its rows, and near misses are not."""

from __future__ import annotations

import dataclasses

import numpy as np

from rl_training.core import Box, Dict, Discrete, Spec
from rl_training.data import Dataset, Finding, lint
from tests.data.making import make

ROWS = 400


def long(obs: str = "box", action: str = "box") -> Dataset:
    return make(obs, action, lengths=(97, 103, 120, 80))


def only(dataset: Dataset) -> Finding:
    (found,) = lint(dataset)
    return found


def test_actions_at_the_bounds() -> None:
    data = long()  # bounds of 2 and 1
    data.action[:60, 0] = 2.0
    data.action[50:70, 1] = -1.0
    found = only(data)
    assert (found.fault, found.severity, found.count) == ("action-at-bounds", "warning", 70)
    assert found.meaning == "18% of the actions are exactly at a bound, most often component 0 (15%)"
    data.action[10:70] = 0.5
    assert lint(data) == []  # 10 of 400


def test_guessed_bounds_are_no_bounds() -> None:
    data = long()
    data.action[:] = np.sign(data.action)
    guessed = data.replace(provenance=dataclasses.replace(data.provenance, spec_inferred=True))
    assert [found.fault for found in lint(guessed)] == ["guessed-spaces"]


def test_actions_that_were_scaled_by_their_policy() -> None:
    data = long().replace(spec=Spec(long().spec.obs, Box((2,), (-2.0, -3.0), (2.0, 3.0))))
    found = only(data)  # drawn from -1 to 1
    assert (found.fault, found.severity) == ("scaled-action", "warning")
    assert found.meaning == "all actions are in [-1, 1] and fill it, though the bounds are -2 and 2"
    data.action[7, 1] = 1.01
    assert lint(data) == []


def test_choices_that_are_never_taken() -> None:
    data = long(action="shifted")
    data.action[data.action == 1] = 2
    found = only(data)
    assert (found.fault, found.severity) == ("unused-choice", "warning")
    assert found.meaning == "actions [1] are never taken in 400 rows"
    data.action[5] = 1
    assert lint(data) == []


def test_observations_outside_of_their_space() -> None:
    data = long("dict", "discrete")  # positions in -9 to 9, 7 kinds of grid
    data.obs["position"][[3, 11]] = 12.0
    found = only(data)
    assert (found.fault, found.severity, found.rows) == ("observation-outside", "warning", (3, 11))
    assert found.meaning == "obs/position is outside Box in 2 rows"
    data.obs["position"][[3, 11]] = 0.0
    data.obs["grid"][4] = 7
    found = only(data)
    assert (found.severity, found.rows, found.meaning) == ("error", (4,), "obs/grid is outside Discrete in 1 rows")


def test_spaces_are_matched_by_key() -> None:
    position, grid = Box((2,), (-9.0,) * 2, (9.0,) * 2), Discrete(7)
    rng, yes = np.random.default_rng(0), np.ones(20, bool)
    data = Dataset.from_arrays(
        obs={"grid": rng.integers(0, 7, 20), "position": rng.uniform(-9, -1, (20, 2))},
        action=rng.integers(0, 2, 20),
        reward=rng.normal(size=20),
        terminated=yes,
        truncated=~yes,
        spec=Spec(Dict({"position": position, "grid": grid}), Discrete(2)),
    )
    assert lint(data) == []


def test_data_without_rewards() -> None:
    data = long()
    data.reward[:] = 0.0
    found = only(data)
    assert (found.fault, found.severity) == ("no-reward", "warning")
    assert found.meaning == "the reward is 0 in all 400 rows"
    data.reward[-1] = 1.0
    assert lint(data) == []


def test_numbers_that_stand_for_a_missing_one() -> None:
    data = long()
    data.obs[[5, 6], 1] = -99_999.0
    data.reward[8] = 1e9
    reward, obs = sorted(lint(data), key=lambda found: -len(found.meaning))
    assert {reward.fault, obs.fault} == {"extreme-number"}
    assert {(reward.rows), (obs.rows)} == {(8,), (5, 6)}
    assert reward.severity == "warning"
