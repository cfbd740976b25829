"""Off-policy estimates of a cascade's quality and cost from logged episodes of another cascade."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_base.evaluation import cross_fit_values, sequential_doubly_robust
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.incumbent import most_likely
from sage.evidence.task_evidence import EvaluationError
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.cells import Cells
from sage.policies.serving import StepRules, step_distribution
from sage.rl.cascades.cascade_learning import episode_log, fit_histories, mean_costs, state_features

FOLDS = 5
Values = tuple[np.ndarray, np.ndarray]


def episode_values(episodes: CascadeData, target: np.ndarray, price: float, *, seed: int = 0) -> np.ndarray:
    """Returns [episodes]: each episode's estimate of the target's reward, quality less `price` times dollars.

    Their mean is the sequential doubly robust estimate. `target` [n, models + 1] are the target's probabilities in the
    logged states. Episodes without an outcome give their expected value.
    """
    quality, cost = part_values(episodes, target, seed=seed)
    return quality - price * cost


def part_values(episodes: CascadeData, target: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns each episode's estimates of the target's quality and of its cost in USD.

    Arguments are those of `episode_values`, which combines the two.
    """
    known, ends = episodes.observed[episodes.episode], np.diff(episodes.episode, append=-1) != 0
    taken, log = target[np.arange(len(target)), episodes.action], replace(episode_log(episodes, 0.0), clusters=None)

    def values_of(part: str, expected: Values) -> np.ndarray:
        rewards = np.where(ends & ~known, expected[0], part_rewards(episodes, part))
        found = sequential_doubly_robust(replace(log, rewards=rewards), taken, *expected)
        return found.value + found.influence

    fits = fitted_parts(episodes, target, known, seed)
    return values_of("quality", fits["quality"]), values_of("cost_usd", fits["cost_usd"])


def fitted_parts(episodes: CascadeData, target: np.ndarray, known: np.ndarray, seed: int) -> dict[str, Values]:
    """Returns Q [n, models + 1] and V [n] of the target for "quality" and "cost_usd", fitted on other tasks.

    `target` [n, models + 1] are probabilities in the logged states; `known` (bool [n]) are the rows to learn from.
    Raises EvaluationError if all episodes are of one task.
    """
    num_tasks = len(np.unique(episodes.contexts.task_id))
    if num_tasks < 2:
        raise EvaluationError("all episodes are of one task: nothing can be proved from a single task; log more tasks")
    features = state_features(episodes, Cells.of(episodes.contexts), mean_costs(episodes))
    found = {}
    for part in ("quality", "cost_usd"):
        log = replace(episode_log(episodes, 0.0), rewards=part_rewards(episodes, part))
        found[part] = cross_fit_values(
            log,
            features,
            episodes.action,
            target,
            fit=fit_histories,
            folds=min(FOLDS, num_tasks),
            seed=seed,
            rows=known,
        )
    return found


def part_rewards(episodes: CascadeData, part: str) -> np.ndarray:
    """Returns [n]: the quality of a stop, or the USD of an attempt, for each step; unknown costs are model means."""
    if part == "quality":
        return np.nan_to_num(episodes.rewards(0.0))
    usual = np.append(mean_costs(episodes), 0.0)[episodes.action]
    return np.where(np.isnan(episodes.cost_usd), usual, episodes.cost_usd)


def net_of_cost(parts: dict[str, Values], price: float) -> Values:
    """Returns Q and V of quality less `price` times cost."""
    (q, v), (q_cost, v_cost) = parts["quality"], parts["cost_usd"]
    return q - price * q_cost, v - price * v_cost


def target_of(episodes: CascadeData, policy: CascadePolicy) -> np.ndarray:
    """Returns [n, models + 1]: the policy's probabilities in the logged states."""
    return step_distribution(policy, StepRules(), episodes.states, episodes.models, episodes.eligible).probabilities


def incumbent_target(episodes: CascadeData, static: CascadePolicy | None) -> np.ndarray:
    """Returns [n, models + 1] with a one for the incumbent's action in each logged state.

    It is the most probable action of `static`, or of the log itself if `static` is None.
    """
    return most_likely(episodes.propensity if static is None else target_of(episodes, static))
