"""Agreement of our point estimates with rliable's: see benchmarks/peers/rliable_golden.py."""

import json
from pathlib import Path

import numpy as np
import pytest

from rl_base.evaluation import iqm, optimality_gap, performance_profile, probability_of_improvement

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "rliable.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: "x".join(map(str, np.shape(case["scores"]["ppo"]))))
def test_point_estimates_are_those_of_rliable(case: dict) -> None:
    scores = case["scores"]
    for name, tasks in scores.items():
        together = np.concatenate(tasks)
        assert iqm(together) == pytest.approx(case["iqm"][name], abs=1e-6)
        assert np.mean(together) == pytest.approx(case["mean"][name], abs=1e-6)
        assert optimality_gap(together, GOLDEN["target"]) == pytest.approx(case["optimality_gap"][name], abs=1e-6)
        profile = performance_profile(tasks, case["thresholds"], resamples=2)
        assert profile.share == pytest.approx(case["profile"][name], abs=1e-6)
    for pair, expected in case["improvement"].items():
        ours, theirs = (scores[name] for name in pair.split(">"))
        found = probability_of_improvement(ours, theirs, resamples=2)
        assert found.probability == pytest.approx(expected, abs=1e-6)


def test_the_golden_scores_have_ties_and_groups_that_overlap() -> None:
    """Else the file would say little: a tie counts half, and a probability of 0 or 1 needs no care."""
    values = [value for case in GOLDEN["cases"] for value in case["improvement"].values()]
    assert sum(0.05 < value < 0.95 for value in values) > 10
    assert any(len(set(case["scores"]["sac"][0])) < len(case["scores"]["sac"][0]) for case in GOLDEN["cases"])
