"""The best cascade for known outcomes and verifier rates, by dynamic programming over histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sage.policies.cascades.cascade_features import history_codes
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.cells import Cells
from sage.policies.learned_policy import Training
from sage.rl.cascades.simulated_verifier import RIGHT, SimulatedVerifier

History = tuple[tuple[int, bool], ...]
"""Models in the order of their attempts, each with whether the verifier accepted it."""


class TaskTypes(NamedTuple):
    """Kinds of tasks and their shares; given the kind, verdicts on different models are independent.

    With one kind per recorded task, the models' successes are correlated as in the record; independent coin flips with
    the models' mean rates would overstate a cascade.
    """

    share: np.ndarray  # [types], adds up to 1
    accepted: np.ndarray  # [types, models] the chance that the verifier accepts
    quality_accepted: np.ndarray  # [types, models] expected quality of an accepted answer
    quality_rejected: np.ndarray  # [types, models]
    cost: np.ndarray  # [types, models] USD


@dataclass(frozen=True)
class Solution:
    """The best value of every action after every possible history, and the value of the best cascade."""

    values: dict[History, np.ndarray]  # [models + 1] per history, last to stop; minus infinity where not possible
    value: float


def types_of(score: np.ndarray, cost: np.ndarray, verifier: SimulatedVerifier) -> TaskTypes:
    """Returns the kinds of tasks by recorded scores and costs [tasks, models] and a simulated verifier.

    There is one kind per task and per range of the random number that the verifier's attempts share (see
    SimulatedVerifier).
    """
    miss, false = 1 - verifier.true_positive, verifier.false_positive
    right = score >= RIGHT
    rate, shared = np.where(right, miss, false), np.sqrt(verifier.correlation)
    edges = np.unique([0.0, miss, false, 1.0])
    parts = []
    for low, high in pairwise(edges):
        error = shared * (low < rate) + (1 - shared) * rate
        parts.append((high - low, np.where(right, 1 - error, error)))
    count = len(parts)
    return TaskTypes(
        share=np.concatenate([np.full(len(score), width / len(score)) for width, _ in parts]),
        accepted=np.concatenate([accepted for _, accepted in parts]),
        quality_accepted=np.tile(score, (count, 1)),
        quality_rejected=np.tile(score, (count, 1)),
        cost=np.tile(cost, (count, 1)),
    )


def solve(types: TaskTypes, price: float, max_attempts: int | None = None) -> Solution:
    """Returns the best cascade by backward induction over all histories.

    Every verdict updates the shares of kinds by Bayes' rule. `price` is quality per dollar.
    """
    num_models = types.cost.shape[1]
    limit = min(max_attempts or num_models, num_models)
    values: dict[History, np.ndarray] = {}

    def best(history: History, mass: np.ndarray) -> float:
        """The value of going on from here, times the chance to come here."""
        total = np.full(num_models + 1, -np.inf)
        if history:
            total[-1] = mass @ taken_quality(types, history)
        tried = [model for model, _ in history]
        for model in range(num_models) if len(history) < limit else ():
            if model not in tried:
                accepted = mass * types.accepted[:, model]
                total[model] = best((*history, (model, True)), accepted)
                total[model] += best((*history, (model, False)), mass - accepted)
                total[model] -= price * (mass @ types.cost[:, model])
        values[history] = total / max(mass.sum(), 1e-300)
        return float(total.max())

    value = best((), types.share)
    return Solution(values, value)


def taken_quality(types: TaskTypes, history: History) -> np.ndarray:
    """Returns [types]: the expected quality of the answer that a stop takes, the latest accepted or else the latest."""
    for model, accepted in reversed(history):
        if accepted:
            return types.quality_accepted[:, model]
    return types.quality_rejected[:, history[-1][0]]


class Expectation(NamedTuple):
    """The expected quality, cost and number of attempts of a cascade, by kind of task."""

    quality: np.ndarray  # [types]
    cost: np.ndarray  # [types]
    attempts: np.ndarray  # [types]


def follow(types: TaskTypes, values: dict[History, np.ndarray]) -> Expectation:
    """Returns the exact expectation of the cascade that takes the highest value; it stops at unknown histories."""
    found = Expectation(*(np.zeros(len(types.share)) for _ in range(3)))
    for history, chance, action in paths(types, values):
        if action == types.cost.shape[1]:
            found.quality[:] += chance * taken_quality(types, history)
        else:
            found.cost[:] += chance * types.cost[:, action]
            found.attempts[:] += chance
    return found


def paths(types: TaskTypes, values: dict[History, np.ndarray]) -> Iterator[tuple[History, np.ndarray, int]]:
    """Yields every history that the cascade comes to, its probability by kind of task, and the action taken there."""
    waiting: list[tuple[History, np.ndarray]] = [((), np.ones(len(types.share)))]
    while waiting:
        history, chance = waiting.pop()
        action = int(values[history].argmax()) if history in values else types.cost.shape[1]
        yield history, chance, action
        if action < types.cost.shape[1]:
            accepted = types.accepted[:, action]
            waiting.append(((*history, (action, True)), chance * accepted))
            waiting.append(((*history, (action, False)), chance * (1 - accepted)))


def as_cascade(solution: Solution, models: tuple[str, ...], *, price: float, training: Training) -> LearnedCascade:
    """Returns the solution as a cascade that can serve; it stops after an attempt that the verifier could not judge."""
    codes, values = [], []
    for history, found in solution.values.items():
        order, verdict = np.zeros((2, 1, len(models)), np.int64)
        for attempt, (model, accepted) in enumerate(history, start=1):
            order[0, model], verdict[0, model] = attempt, ACCEPTED if accepted else REJECTED
        codes.append(history_codes(order, verdict)[0])
        values.append(found)
    distinct, first = np.unique(np.array(codes), return_index=True)  # orders of attempts that come to the same
    return LearnedCascade(
        name="optimal_stopping",
        models=models,
        training=training,
        cells=Cells(()),
        price=price,
        codes=distinct,
        values=np.array(values)[first],
        weights=np.zeros((1, 4 * len(models) + 4, len(models) + 1)),
        mean_cost=np.zeros(len(models)),
    )
