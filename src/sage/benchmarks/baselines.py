"""The baselines of every routing result, from random choice to the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sage.evidence.mixing_line import MixingLine
from sage.outcomes.table import OutcomeTable
from sage.policies.bandits.contextual_bandit import ContextualBandit
from sage.policies.bandits.ucb_bandit import UCB1
from sage.policies.policy import Contexts, select_rows
from sage.rl.category_table import table_from_outcomes
from sage.rl.logging_policies import PreferenceOrder
from sage.rl.replay import best_first, draw

NEIGHBOURS = 25
NEWTON_STEPS = 8
LOGISTIC_PENALTY = 3.0


class Task(NamedTuple):
    """One split of a table, as every baseline gets it; only the oracle may use the scores of `held_out`."""

    train: OutcomeTable
    held_out: OutcomeTable
    train_contexts: Contexts
    held_out_contexts: Contexts
    static: str
    seed: int


Baseline = Callable[[Task], np.ndarray]  # probabilities [held out, models]


def uniform(task: Task) -> np.ndarray:
    """Returns [held out, models]: even probabilities of the models that ran."""
    return task.held_out.ran / task.held_out.ran.sum(axis=1, keepdims=True)


def always(model: str) -> Baseline:
    """Returns a baseline that chooses this model wherever it ran, and else another by name."""

    def choose(task: Task) -> np.ndarray:
        order = PreferenceOrder((model,))
        return order.probabilities(task.held_out_contexts, task.held_out.models, task.held_out.ran)

    return choose


def static(task: Task) -> np.ndarray:
    """Returns [held out, models]: all probability on the static table's model."""
    return always(task.static)(task)


def best_single(task: Task) -> np.ndarray:
    """Returns [held out, models]: all probability on the model with the best mean score on the training tasks."""
    return best_first(task.train).probabilities(task.held_out_contexts, task.held_out.models, task.held_out.ran)


def mixing_line(task: Task) -> np.ndarray:
    """Returns [held out, models]: the mixture of models that costs as much as the static table on training tasks."""
    line = MixingLine.of(task.train.score, task.train.cost_usd)
    budget = np.nanmean(task.train.cost_usd[:, task.train.models.index(task.static)])
    shares = line.shares(float(budget), len(task.train.models)) * task.held_out.ran
    left = shares.sum(axis=1, keepdims=True)
    return np.where(left > 0, shares / np.where(left > 0, left, 1.0), uniform(task))


def category_table(task: Task) -> np.ndarray:
    """Returns [held out, models]: the choices of the category table that is learned from the training scores."""
    models = task.train.models
    policy = table_from_outcomes(task.train_contexts, models, task.train.score)
    return policy.probabilities(task.held_out_contexts, models, task.held_out.ran)


def nearest_neighbours(task: Task) -> np.ndarray:
    """Returns [held out, models]: the model with the best mean score on the most similar training tasks.

    Similar are those nearest in features and category.
    """
    near, far = inputs(task)
    distance = (far**2).sum(axis=1)[:, None] + (near**2).sum(axis=1)[None] - 2 * far @ near.T
    neighbours = np.argsort(distance, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(near))]
    return highest(mean_known(task.train.score[neighbours], axis=1, otherwise=task.train), task.held_out.ran)


def logistic_regression(task: Task) -> np.ndarray:
    """Returns [held out, models]: the model with the highest score predicted by penalized logistic regressions.

    There is one regression per model, fitted by Newton's steps.
    """
    near, far = (np.hstack([np.ones((len(part), 1)), part]) for part in inputs(task))
    predicted = np.zeros(task.held_out.score.shape)
    for k in range(len(task.train.models)):
        known = task.train.ran[:, k]
        weights = fit_logistic(near[known], task.train.score[known, k])
        predicted[:, k] = far @ weights
    return highest(predicted, task.held_out.ran)


def fit_logistic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    weights = np.zeros(x.shape[1])
    penalty = LOGISTIC_PENALTY * np.eye(x.shape[1])
    penalty[0, 0] = 1e-6  # the mean is free
    for _ in range(NEWTON_STEPS if len(y) else 0):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        curvature = (x * np.maximum(chance * (1 - chance), 1e-6)[:, None]).T @ x + penalty
        weights -= np.linalg.solve(curvature, x.T @ (chance - y) + penalty @ weights)
    return weights


def bandit(make: Callable[[], UCB1 | ContextualBandit]) -> Baseline:
    """Returns a baseline that learns from the training tasks one by one in random order, and then stays as it is.

    It sees the outcome of its own choice alone.
    """

    def choose(task: Task) -> np.ndarray:
        policy, models = make(), task.train.models
        generator = np.random.default_rng(task.seed)
        for i in generator.permutation(np.flatnonzero(task.train.ran.any(axis=1))):
            context, ran = select_rows(task.train_contexts, np.array([i])), task.train.ran[[i]]
            chosen = int(draw(policy.probabilities(context, models, ran), generator)[0])
            policy.update(context, [models[chosen]], task.train.score[[i], chosen])
        return policy.probabilities(task.held_out_contexts, models, task.held_out.ran)

    return choose


def oracle(task: Task) -> np.ndarray:
    """Returns [held out, models]: the best model of every task in hindsight; with one run per task, optimistic."""
    return highest(task.held_out.score, task.held_out.ran)


def inputs(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Returns the standardised features and one-hot categories of training and held-out tasks.

    Both are scaled on the training tasks; a category that is new there gets zeros.
    """
    train, held_out = (c.features.astype(np.float64) for c in (task.train_contexts, task.held_out_contexts))
    centre, scale = train.mean(axis=0), train.std(axis=0)
    varies = scale > 1e-9
    names = np.unique(task.train_contexts.category)
    parts = []
    for values, contexts in ((train, task.train_contexts), (held_out, task.held_out_contexts)):
        numbers = (values[:, varies] - centre[varies]) / scale[varies]
        parts.append(np.hstack([numbers, 2.0 * (contexts.category[:, None] == names[None])]))
    return parts[0], parts[1]


def mean_known(values: np.ndarray, axis: int, otherwise: OutcomeTable) -> np.ndarray:
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nanmean(otherwise.score, axis=0))


def highest(values: np.ndarray, eligible: np.ndarray) -> np.ndarray:
    """Returns [n, models] with all probability on the eligible model that has the highest value."""
    chosen = np.where(eligible, values, -np.inf).argmax(axis=1)
    return np.eye(values.shape[1])[chosen]


def all_baselines(models: tuple[str, ...]) -> dict[str, Baseline]:
    """Returns the baselines by name, in the order of the results table."""
    return {
        "random": uniform,
        **{f"always {model}": always(model) for model in models},
        "best single (chosen on train)": best_single,
        "static": static,
        "mixing line (at the static table's cost)": mixing_line,
        "category table": category_table,
        "nearest neighbours": nearest_neighbours,
        "logistic regression": logistic_regression,
        "UCB1": bandit(UCB1),
        "contextual bandit": bandit(ContextualBandit),
        "oracle (optimistic)": oracle,
    }
