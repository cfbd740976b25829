"""The counts of a run: what its evaluations say of going from data to an environment."""

import pytest

from rl_training.runtime import Progress


def test_the_dip_and_the_regret_of_the_evaluations_since_the_switch() -> None:
    progress = Progress(offline_updates=10)
    for mean in (10.0, 40.0, 20.0):
        progress.count_evaluation(mean)
    assert progress.switch_return == 20.0
    assert progress.switch_dip is progress.switch_regret is progress.online_return is None
    progress.env_steps = 5
    progress.count_evaluation(25.0)
    assert (progress.switch_dip, progress.switch_regret) == (0.0, 15.0)  # no fall, but 15 below the best so far
    for mean in (5.0, 60.0):
        progress.count_evaluation(mean)
    assert progress.switch_dip == 15.0
    assert progress.online_return == 30.0
    assert progress.switch_regret == pytest.approx((35 + 55 + 0) / 3)
    assert Progress.from_state(vars(progress)) == progress


def test_a_run_without_data_has_neither() -> None:
    progress = Progress(env_steps=5)
    progress.count_evaluation(1.0)
    assert progress.switch_dip is progress.switch_regret is progress.online_return is None
