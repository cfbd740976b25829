"""Agreement with a second implementation that shares no line with ours: see benchmarks/peers/ope_golden.py."""

import json
from pathlib import Path

import numpy as np
import pytest

from rl_base.evaluation import (
    BanditLog,
    EpisodeLog,
    Estimate,
    diagnose_bandit,
    direct_method,
    doubly_robust,
    fit_ridge,
    interval,
    inverse_propensity,
    self_normalized,
    switch_doubly_robust,
)
from rl_base.evaluation.policy_value import episode_estimates

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "ope.json").read_text())
BANDIT, SEQUENTIAL = GOLDEN["bandit"], GOLDEN["sequential"]
ROWS = {name: np.array(values) for name, values in BANDIT["log"].items()}
TARGET = ROWS.pop("target")
LOG = BanditLog(**ROWS)
PREDICTIONS = fit_ridge(ROWS["features"], LOG.actions, LOG.rewards, 3)(ROWS["features"])


def bandit_estimates() -> list[Estimate]:
    return [
        direct_method(LOG, TARGET, PREDICTIONS),
        inverse_propensity(LOG, TARGET),
        self_normalized(LOG, TARGET),
        doubly_robust(LOG, TARGET, PREDICTIONS),
        switch_doubly_robust(LOG, TARGET, PREDICTIONS, threshold=GOLDEN["switch_at"]),
    ]


def sequential_estimates() -> list[Estimate]:
    episodes = SEQUENTIAL["episodes"]
    columns = {name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]}
    lengths = [len(episode["rewards"]) for episode in episodes]
    log = EpisodeLog(
        episodes=np.repeat(np.arange(len(episodes)), lengths),
        rewards=columns["rewards"],
        propensities=columns["propensities"],
        gamma=GOLDEN["gamma"],
    )
    return episode_estimates(log, columns["target"], (columns["q"], columns["v"]))


def test_the_reward_model() -> None:
    assert pytest.approx(np.array(BANDIT["predictions"]), rel=1e-9, abs=1e-9) == PREDICTIONS


@pytest.mark.parametrize("estimate", [*bandit_estimates(), *sequential_estimates()], ids=lambda estimate: estimate.name)
def test_value_influence_error_and_interval(estimate: Estimate) -> None:
    expected = (BANDIT["estimates"] | SEQUENTIAL["estimates"])[estimate.name]
    unbiased = Estimate(estimate.name, estimate.value, estimate.influence)  # the second one knows no bias bounds
    found = interval(unbiased)
    close = {"rel": 1e-9, "abs": 1e-9}
    assert estimate.value == pytest.approx(expected["value"], **close)
    assert estimate.influence == pytest.approx(np.array(expected["influence"]), **close)
    assert estimate.standard_error == pytest.approx(expected["standard_error"], **close)
    assert (found.low, found.high) == pytest.approx((expected["low"], expected["high"]), **close)


def test_every_estimator_is_compared() -> None:
    names = [estimate.name for estimate in (*bandit_estimates(), *sequential_estimates())]
    assert names == [*BANDIT["estimates"], *SEQUENTIAL["estimates"]]


def test_diagnostics() -> None:
    found = diagnose_bandit(LOG, TARGET)
    assert found.effective_sample_size == pytest.approx(BANDIT["effective_sample_size"], rel=1e-9)
    assert found.largest_weight_share == pytest.approx(BANDIT["largest_weight_share"], rel=1e-9)
