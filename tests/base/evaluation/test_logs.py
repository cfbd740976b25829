"""Every unusable log is refused with the field, the value and what to do."""

import math

import numpy as np
import pytest

from rl_base.evaluation import BanditLog, EpisodeLog, evaluate_bandit, inverse_propensity
from rl_base.evaluation.sequential import step_ratios, trajectory_importance_sampling

GOOD = {
    "actions": np.array([0, 1]),
    "rewards": np.array([1.0, 0.5]),
    "propensities": np.array([[0.5, 0.5], [0.2, 0.8]]),
}
EPISODES = {
    "episodes": np.array([5, 5, 2]),
    "rewards": np.array([1.0, 2.0, 3.0]),
    "propensities": np.array([0.5, 1.0, 0.25]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": []}, r"rewards is empty: an estimate needs at least one logged row"),
        ({"rewards": [1.0, math.nan]}, r"rewards\[1\] is nan: repair or drop rows"),
        ({"rewards": [[1.0, 2.0]]}, r"rewards has shape \(1, 2\): give one number per logged row"),
        ({"actions": [0]}, r"actions has 1 rows where rewards has 2: give one number per logged row"),
        ({"actions": [0, 2]}, r"actions\[1\] is 2: give an index from 0 to 1"),
        ({"actions": [-1, 1]}, r"actions\[0\] is -1: give an index"),
        ({"actions": [0.5, 1]}, r"actions\[0\] is 0.5: give an index"),
        ({"propensities": [0.5, 0.5]}, r"propensities has shape \(2,\) where rewards has 2 rows: give the probability"),
        ({"propensities": [[0.5, 0.5]]}, r"propensities has shape \(1, 2\) where rewards has 2 rows"),
        ({"propensities": [[0.0, 1.0], [0.2, 0.8]]}, r"propensities\[0, 0\], of the action taken, is 0: .* above 0"),
        (
            {"propensities": [[1.5, 0.5], [0.2, 0.8]]},
            r"propensities\[0, 0\], of the action taken, is 1.5: .* at most 1",
        ),
        (
            {"propensities": [[math.nan, 1], [0.2, 0.8]]},
            r"propensities\[0, 0\], of the action taken, is nan: .* drop rows",
        ),
        (
            {"propensities": [[0.5, -0.5], [0.2, 0.8]]},
            r"propensities\[0, 1\] is -0.5: give probabilities between 0 and 1",
        ),
        ({"propensities": [[0.5, math.inf], [0.2, 0.8]]}, r"propensities\[0, 1\] is inf: give probabilities"),
        ({"propensities": [[0.5, 0.5], [0.2, 0.7]]}, r"propensities\[1\] sums to 0.9 instead of 1: .* normalised"),
        (
            {"propensities": [[0.5, 0.5, 0.0], [0.3, 0.8, math.nan]]},
            r"propensities\[1\] sums to 1.1 instead of 1",
        ),
        ({"features": [[1.0]]}, r"features has shape \(1, 1\) where rewards has 2 rows: give shape \[rows, d\]"),
        ({"features": [[1.0], [math.inf]]}, r"features\[1, 0\] is inf: repair or drop"),
        ({"clusters": [1]}, r"clusters has shape \(1,\) where rewards has 2 rows: give one id per logged row"),
        ({"clusters": [1.0, math.nan]}, r"clusters\[1\] is nan: give every row an id"),
        ({"reward_range": (0.0, 0.9)}, r"rewards run from 0.5 to 1, outside reward_range \(0.0, 0.9\): state a range"),
        ({"reward_range": (0.6, 1.0)}, r"outside reward_range \(0.6, 1.0\)"),
    ],
)
def test_unusable_decisions_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BanditLog(**(GOOD | changes))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            [[1.0, 0.0]],
            r"target has shape \(1, 2\) where propensities has \(2, 2\): give the probability of every action",
        ),
        ([[1.0, 0.0], [math.nan, 1.0]], r"target\[1, 0\] is nan: give probabilities between 0 and 1"),
        ([[1.0, 0.0], [1.2, 0.0]], r"target\[1, 0\] is 1.2: give probabilities between 0 and 1"),
        ([[1.0, 0.0], [0.4, 0.4]], r"target\[1\] sums to 0.8 instead of 1"),
    ],
)
def test_unusable_policies_are_refused(target: list, message: str) -> None:
    for use in (inverse_propensity, evaluate_bandit):
        with pytest.raises(ValueError, match=message):
            use(BanditLog(**GOOD), np.array(target))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": []}, r"rewards is empty"),
        ({"rewards": [1.0, math.inf, 2.0]}, r"rewards\[1\] is inf"),
        ({"episodes": [5, 5]}, r"episodes has shape \(2,\) where rewards has 3 rows: give one id per logged row"),
        ({"episodes": [5, 2, 5]}, r"episodes has 3 runs of equal ids but 2 different ids: sort the rows by episode"),
        (
            {"propensities": [0.5, 1.0]},
            r"propensities has shape \(2,\) where rewards has 3 rows: give one number per step",
        ),
        ({"propensities": [0.5, 0.0, 0.25]}, r"propensities\[1\] is 0: .* is above 0 and at most 1"),
        ({"propensities": [0.5, 1.5, 0.25]}, r"propensities\[1\] is 1.5: .* need densities=True"),
        ({"propensities": [0.5, math.nan, 0.25]}, r"propensities\[1\] is nan: .* drop episodes in which it is unknown"),
        ({"propensities": [0.5, math.inf, 0.2], "densities": True}, r"propensities\[1\] is inf"),
        ({"gamma": 1.5}, r"gamma is 1.5: the discount lies between 0 and 1"),
        ({"gamma": math.nan}, r"gamma is nan"),
        ({"clusters": [1, 2, 3]}, r"clusters changes within an episode at row 1: an episode belongs to one task"),
    ],
)
def test_unusable_episodes_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EpisodeLog(**(EPISODES | changes))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([0.5, 0.5], r"target has shape \(2,\) where rewards has 3 rows"),
        ([0.5, -0.1, 0.5], r"target\[1\] is -0.1: .* at least 0"),
        ([0.5, 1.1, 0.5], r"target\[1\] is 1.1"),
        ([0.5, math.nan, 0.5], r"target\[1\] is nan"),
    ],
)
def test_unusable_policies_of_episodes_are_refused(target: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trajectory_importance_sampling(EpisodeLog(**EPISODES), np.array(target))


def test_densities_may_exceed_one() -> None:
    log = EpisodeLog(**(EPISODES | {"propensities": [0.5, 2.0, 4.0]}), densities=True)
    assert step_ratios(log, np.array([1.5, 1.0, 8.0])).tolist() == [[3.0, 0.5], [2.0, 1.0]]


def test_single_precision_probabilities_pass() -> None:
    propensities = np.full((2, 3), 1 / 3, dtype=np.float32)
    assert BanditLog(**(GOOD | {"propensities": propensities})).propensities.dtype == np.float64


def test_episodes_keep_their_order_and_may_have_any_ids() -> None:
    log = EpisodeLog(**(EPISODES | {"episodes": np.array(["z", "z", "a"])}))
    assert log.padded(log.rewards, -1.0).tolist() == [[1.0, 2.0], [3.0, -1.0]]
    assert log.cluster_index.tolist() == [0, 1]


def test_clusters_may_have_any_ids() -> None:
    log = BanditLog(**GOOD, clusters=np.array(["task 9", "task 1"]))
    assert sorted(log.cluster_index) == [0, 1]
