"""Which learner's cascade to keep, and for which price: judged on tasks that it was not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from rl_training.evaluation.reward_model import assign_folds
from sage.rl.cascade_data import CascadeData
from sage.rl.cascade_dqn import learn_dqn
from sage.rl.cascade_evaluation import episode_values, incumbent_target, target_of
from sage.rl.cascade_learning import learn_fitted_q
from sage.rl.cascade_policy import CascadePolicy
from sage.rl.learned_cascade import LearnedCascade
from sage.rl.mixing_line import MixingLine
from sage.rl.objective import Objective

FOLDS = 3
ERRORS = 2.0  # standard errors that an estimate may be wrong by
PRICES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # quality points per dollar that are tried for a limit
Learner = Callable[[CascadeData, float], LearnedCascade]
LEARNERS: dict[str, Learner] = {
    "fitted-q": learn_fitted_q,
    "fitted-q-wide": partial(learn_fitted_q, wide=True),
    "dqn": learn_dqn,
}


def choose_cascade(
    data: CascadeData, price: float, learners: dict[str, Learner] = LEARNERS, *, seed: int = 0
) -> LearnedCascade:
    """The first learner, or another whose cascades are better by more than a standard error on tasks left out.

    What was compared is in the training's calibration: the gain over the first learner, by task, and its standard error.
    """
    first, *others = learners
    gains = {name: [] for name in others}
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    if task.max() + 1 < 2 * FOLDS:
        raise ValueError(
            f"the episodes are of {task.max() + 1} tasks: at least {2 * FOLDS} are needed to choose a learner"
        )
    fold = assign_folds(task, FOLDS, seed)
    for k in range(FOLDS if others else 0):
        held_out, rest = data.select(fold == k), data.select(fold != k)
        values = {
            name: episode_values(held_out, target_of(held_out, learn(rest, price)), price, seed=seed)
            for name, learn in learners.items()
        }
        for name in others:
            gains[name].append((values[name] - values[first], held_out.contexts.task_id))
    compared = {name: by_task(found) for name, found in gains.items()}
    better = {name: gain for name, (gain, error) in compared.items() if gain > error}
    chosen = max(better, key=lambda name: better[name]) if better else first
    policy = learners[chosen](data, price)
    record = {name: {"gain": gain, "standard_error": error} for name, (gain, error) in compared.items()}
    return replace(policy, training=replace(policy.training, calibration={"against": first, "learners": record}))


def by_task(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The mean over episodes, and its standard error by task."""
    values, tasks = (np.concatenate(parts) for parts in zip(*found, strict=True))
    mean = float(values.mean())
    _, row = np.unique(tasks, return_inverse=True)
    sums = np.bincount(row, values - mean)
    count = len(sums)
    return mean, float(np.sqrt((sums**2).sum() * count / max(count - 1, 1)) / len(values))


def learn_within(
    data: CascadeData,
    objective: Objective,
    incumbent: CascadePolicy | None = None,
    learner: str = "fitted-q",
    *,
    seed: int = 0,
) -> LearnedCascade:
    """Meets a limit by quality and cost of cascades on tasks that they were not learned from.

    Within the allowed loss of quality the cheapest, within a budget the best; if none is, the one that comes nearest. The best
    answer to a limit is a mixture of two prices wherever no single price is at it exactly (Beutler and Ross, 1985). What is
    limited counts with two standard errors, because the gate asks for bounds.
    """
    learn = LEARNERS[learner]
    if learn is learn_dqn:
        raise ValueError(
            "learner=dqn under a limit would be learned for many prices, which takes hours: give --price, or fitted-q"
        )
    found = [estimate(data, learn, price, incumbent, seed) for price in PRICES]
    gain, gain_error, cost, cost_error = np.array(found).T
    if objective.max_usd_per_task is not None:
        line, limit = MixingLine.through(gain, cost + ERRORS * cost_error), objective.max_usd_per_task
    else:
        line = MixingLine.through(gain - ERRORS * gain_error, cost)
        limit = line.cost_of(min(-objective.margin, float(line.quality[-1])))
    shares = line.shares(limit, len(PRICES))
    first, *others = np.flatnonzero(shares).tolist()
    policy = learn(data, PRICES[first])
    if not others:
        return policy
    return replace(policy, other=learn(data, PRICES[others[0]]), share=float(shares[first]))


def estimate(
    data: CascadeData, learn: Learner, price: float, incumbent: CascadePolicy | None, seed: int
) -> tuple[float, float, float, float]:
    """The gain in quality over the incumbent and its standard error, the cost and its own."""
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    fold, gains, costs = assign_folds(task, FOLDS, seed), [], []
    for k in range(FOLDS):
        held_out = data.select(fold == k)
        target, tasks = target_of(held_out, learn(data.select(fold != k), price)), held_out.contexts.task_id
        quality = episode_values(held_out, target, 0.0, seed=seed)
        usual = episode_values(held_out, incumbent_target(held_out, incumbent), 0.0, seed=seed)
        gains.append((quality - usual, tasks))
        costs.append((quality - episode_values(held_out, target, 1.0, seed=seed), tasks))
    return *by_task(gains), *by_task(costs)
