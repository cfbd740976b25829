import numpy as np

from rl_base.evaluation import BanditLog, interval
from sage.evidence.logged_rewards import predict_rewards
from sage.evidence.task_evidence import gain_estimate, predict_for_proof

CANDIDATE, INCUMBENT = np.array([0.0, 1.0]), np.array([1.0, 0.0])


def make_log(
    *, whole_task: bool = False, tasks: int = 300, rows: int = 8, noise: float = 0.1, gain: float = 0.1
) -> BanditLog:
    """The second model is better by `gain`; with `whole_task` every row reports the mean over its task's answers."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(tasks), rows)
    action = (rng.random(len(cluster)) < 0.2).astype(np.int64)
    ease = rng.normal(0, 0.25, tasks)[cluster]
    reward = np.clip(0.5 + ease + gain * action + rng.normal(0, noise, len(cluster)), 0, 1)
    if whole_task:
        shared = np.bincount(cluster, reward)[cluster] / rows
        reward = 0.5 * reward + 0.5 * shared
    return BanditLog(
        actions=action,
        rewards=reward,
        propensities=np.tile([0.8, 0.2], (len(action), 1)),
        features=np.zeros((len(action), 1)),
        clusters=cluster,
        reward_range=(0.0, 1.0),
    )


def policies(log: BanditLog) -> tuple[np.ndarray, np.ndarray]:
    return np.tile(CANDIDATE, (len(log.actions), 1)), np.tile(INCUMBENT, (len(log.actions), 1))


def test_difficulty_known_from_earlier_rows_narrows_the_interval_and_keeps_the_value() -> None:
    log, everywhere = make_log(), np.ones(2400, bool)
    plain = gain_estimate(log, *policies(log), predict_rewards(log))
    informed = gain_estimate(log, *policies(log), predict_for_proof(log, *policies(log), everywhere))
    assert informed.standard_error < 0.6 * plain.standard_error
    found = interval(informed)
    assert found.low < 0.1 < found.high


def test_predictions_that_would_move_the_estimate_are_not_used() -> None:
    """Outcomes that later decisions of the task have changed say something about the row's own action."""
    log, everywhere = make_log(whole_task=True, tasks=12_000, rows=2, noise=0.3, gain=0.3), np.ones(24_000, bool)
    found = predict_for_proof(log, *policies(log), everywhere)
    np.testing.assert_array_equal(found, predict_rewards(log, observed=everywhere))
    assert (found != predict_rewards(log, observed=everywhere, earlier_rows=True)).any()


def test_outcomes_that_are_missing_are_no_evidence() -> None:
    log, observed = make_log(), np.ones(2400, bool)
    observed[::8] = False  # the first row of every task
    other = make_log()
    other.rewards[::8] = 0.0
    before, after = (predict_for_proof(x, *policies(x), observed) for x in (log, other))
    np.testing.assert_array_equal(before, after)
