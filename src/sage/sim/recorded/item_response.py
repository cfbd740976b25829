"""An item-response model (2PL) of recorded outcomes: a difficulty for every task, an ability and a slope for every
model.

The slope is the model's and not the task's, because a pack has hundreds of tasks but few models, and how often two
models fail together depends on how closely each follows the difficulty. The distribution of difficulties is estimated
too, on a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GRID = np.linspace(-4.0, 4.0, 41)
NORMAL = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()
NORMAL_TASKS = 1.0  # as many tasks as the normal distribution counts for, so that no difficulty is impossible
PRIOR = np.array([0.05, 0.5])  # precision of intercept and slope around 0 and 1, for models that solve all or nothing
FLATTEST = 0.05  # slope
NOT_RUN = -1.0  # where a score is NaN, so that equal rows are found
MOST_ROUNDS, ENOUGH = 300, 1e-7  # of EM; the second is a change of the likelihood, per task


class Curves(NamedTuple):
    """Fitted curves: P(model solves task) = sigmoid(discrimination * (ability - difficulty)); difficulties have mean 0
    and deviation 1."""

    ability: np.ndarray  # [models]
    discrimination: np.ndarray  # [models]
    difficulty: np.ndarray  # [points], the grid
    weight: np.ndarray  # [points], of tasks

    def probability(self) -> np.ndarray:
        """Returns the chance [points, models] that a model solves a task of each difficulty."""
        return sigmoid(self.discrimination * (self.ability - self.difficulty[:, None]))

    def likelihood(self, score: np.ndarray) -> np.ndarray:
        """Returns the log likelihood [tasks, points] of scores [tasks, models] between 0 and 1; NaN was not run."""
        return log_likelihood(score, self.discrimination * (self.ability - self.difficulty[:, None]))

    def posterior(self, score: np.ndarray) -> np.ndarray:
        """Returns the probability [tasks, points] of each difficulty, given scores [tasks, models]."""
        return normalised(self.likelihood(score) + np.log(self.weight))


def fit_curves(score: np.ndarray) -> Curves:
    """Returns curves that are fitted by EM over the grid to scores [tasks, models] between 0 and 1; NaN was not run."""
    patterns, count = np.unique(np.where(np.isnan(score), NOT_RUN, score), axis=0, return_counts=True)
    score = np.where(patterns == NOT_RUN, np.nan, patterns)
    ran = patterns != NOT_RUN
    solved = np.where(ran, score, 0.0)
    design = np.stack([np.ones_like(GRID), -GRID], axis=1)
    line = np.tile([0.0, 1.0], (score.shape[1], 1))  # intercept and slope of each model
    weight, before = NORMAL, -np.inf
    for _ in range(MOST_ROUNDS):
        joint = log_likelihood(score, design @ line.T) + np.log(weight)
        total = np.average(np.logaddexp.reduce(joint, axis=1), weights=count)
        if total - before < ENOUGH:
            break
        before, place = total, normalised(joint) * count[:, None]
        weight = place.sum(axis=0) + NORMAL_TASKS * NORMAL
        weight = weight / weight.sum()
        line = improved(line, design, place.T @ solved, place.T @ ran)
    mean = weight @ GRID
    deviation = np.sqrt(weight @ (GRID - mean) ** 2)
    ability = (line[:, 0] / line[:, 1] - mean) / deviation
    return Curves(ability, line[:, 1] * deviation, (GRID - mean) / deviation, weight)


def improved(line: np.ndarray, design: np.ndarray, solved: np.ndarray, ran: np.ndarray) -> np.ndarray:
    """Returns the lines [models, 2] after a Newton step of each model's logistic regression on expected counts [points,
    models]."""
    chance = sigmoid(design @ line.T)
    gradient = (solved - ran * chance).T @ design - PRIOR * (line - [0.0, 1.0])
    curvature = np.einsum("ki,km,kj->mij", design, ran * chance * (1 - chance), design) + np.diag(PRIOR)
    step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
    moved = line + step.clip(-1, 1)
    moved[:, 1] = moved[:, 1].clip(FLATTEST)
    return moved


def log_likelihood(score: np.ndarray, logit: np.ndarray) -> np.ndarray:
    """Returns the log likelihood [tasks, points] of scores [tasks, models], given logits [points, models]; NaN was not
    run."""
    ran = ~np.isnan(score)
    solved = np.where(ran, score, 0.0)
    return -solved @ np.logaddexp(0, -logit).T - (ran - solved) @ np.logaddexp(0, logit).T


def normalised(joint: np.ndarray) -> np.ndarray:
    weight = np.exp(joint - joint.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))
