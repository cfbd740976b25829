"""Off-policy evaluation in one call: every estimator, intervals, diagnostics, or a refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_base.evaluation import bandit, sequential
from rl_base.evaluation.diagnostics import diagnose_bandit, diagnose_episodes
from rl_base.evaluation.estimate import Estimate, paired_difference
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.logs import BanditLog, EpisodeLog, check_target
from rl_base.evaluation.report import Report, build_report
from rl_base.evaluation.reward_model import cross_fit

Values = tuple[np.ndarray, np.ndarray]
"""A policy's Q of the actions taken and its V of the same states, one per step."""


def evaluate_bandit(
    log: BanditLog,
    target: np.ndarray,
    *,
    predictions: np.ndarray | None = None,
    estimator: str = "doubly robust",
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Returns a report on the expected reward per decision of the policy with probabilities `target` [n, actions].

    `predictions` [n, actions] are rewards from a model that has not seen the rows; without them ridge regressions are
    cross-fitted. `estimator` names the estimate that answers. The report holds a refusal if the weights support no
    estimate; an invalid argument raises ValueError.
    """
    target = check_target(log, target)
    predictions = cross_fit(log, seed=seed) if predictions is None else predictions
    estimates, found = bandit_estimates(log, target, predictions), {"target": diagnose_bandit(log, target)}
    estimand = "expected reward per decision"
    return build_report(estimand, estimator, estimates, found, level=level, method=method, seed=seed)


def compare_bandit(
    log: BanditLog,
    candidate: np.ndarray,
    baseline: np.ndarray,
    *,
    predictions: np.ndarray | None = None,
    estimator: str = "doubly robust",
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Returns a report on the candidate's expected reward minus the baseline's, paired on the same decisions.

    Both are probabilities [n, actions], and `predictions` are as in `evaluate_bandit`. The candidate is better with
    97.5 % confidence if the 95 % interval is `above_zero`. An invalid argument raises ValueError.
    """
    candidate, baseline = check_target(log, candidate, "candidate"), check_target(log, baseline, "baseline")
    predictions = cross_fit(log, seed=seed) if predictions is None else predictions
    estimates = paired(bandit_estimates(log, candidate, predictions), bandit_estimates(log, baseline, predictions))
    found = {"candidate": diagnose_bandit(log, candidate), "baseline": diagnose_bandit(log, baseline)}
    estimand = "expected reward per decision, candidate minus baseline"
    return build_report(estimand, estimator, estimates, found, level=level, method=method, seed=seed)


def evaluate_episodes(
    log: EpisodeLog,
    target: np.ndarray,
    *,
    values: Values | None = None,
    moments: np.ndarray | None = None,
    estimator: str | None = None,
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Returns a report on the expected return of a policy with probabilities `target` [n] of the logged actions.

    With `values` (Q of the logged actions [n] and V [n], fitted to other episodes), the doubly robust estimate answers;
    else the weighted per-decision one. `moments` [n, 3], from `ratio_moments` where the probabilities of all actions
    are known, let the diagnostics see weights that were not drawn. The report holds a refusal if the weights support no
    estimate; an invalid argument raises ValueError.
    """
    estimates, found = episode_estimates(log, target, values), {"target": diagnose_episodes(log, target, moments)}
    estimator = estimator or default_estimator(values)
    estimand = "expected return per episode"
    report = build_report(estimand, estimator, estimates, found, level=level, method=method, seed=seed)
    return replace(report, gamma=log.gamma, logged_return=float(sequential.returns(log).mean()))


def compare_episodes(
    log: EpisodeLog,
    candidate: np.ndarray,
    baseline: np.ndarray,
    *,
    values: tuple[Values, Values] | None = None,
    moments: tuple[np.ndarray, np.ndarray] | None = None,
    estimator: str | None = None,
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Returns a report on the candidate's expected return minus the baseline's, paired on the same episodes.

    Both are probabilities [n] of the logged actions; `values` and `moments` are pairs, of the candidate and the
    baseline, as in `evaluate_episodes`; with None the weighted per-decision estimate answers.
    """
    of_candidate, of_baseline = values if values is not None else (None, None)
    estimates = paired(episode_estimates(log, candidate, of_candidate), episode_estimates(log, baseline, of_baseline))
    ours, theirs = moments if moments is not None else (None, None)
    found = {"candidate": diagnose_episodes(log, candidate, ours), "baseline": diagnose_episodes(log, baseline, theirs)}
    estimator = estimator or default_estimator(of_candidate)
    estimand = "expected return per episode, candidate minus baseline"
    return build_report(estimand, estimator, estimates, found, level=level, method=method, seed=seed)


def bandit_estimates(log: BanditLog, target: np.ndarray, predictions: np.ndarray) -> list[Estimate]:
    """Returns the estimate of every one-step estimator, in a fixed order.

    `target` [n, actions] are the policy's probabilities, `predictions` [n, actions] a model's rewards.
    """
    return [
        bandit.direct_method(log, target, predictions),
        bandit.inverse_propensity(log, target),
        bandit.self_normalized(log, target),
        bandit.doubly_robust(log, target, predictions),
        bandit.switch_doubly_robust(log, target, predictions),
    ]


def episode_estimates(log: EpisodeLog, target: np.ndarray, values: Values | None = None) -> list[Estimate]:
    """Returns the estimate of every sequential estimator; fitted Q and the doubly robust one only with `values`.

    `target` [n] are the policy's probabilities of the logged actions, `values` its Q of these and its V, [n] each.
    """
    estimates = [
        sequential.trajectory_importance_sampling(log, target),
        sequential.weighted_importance_sampling(log, target),
        sequential.per_decision_importance_sampling(log, target),
        sequential.weighted_per_decision(log, target),
    ]
    if values is None:
        return estimates
    return [
        *estimates,
        sequential.fitted_value(log, values[1]),
        sequential.sequential_doubly_robust(log, target, *values),
    ]


def default_estimator(values: Values | None) -> str:
    """Returns the name of the estimator that answers: "sequential DR" with values, else "weighted per-decision IS"."""
    return "weighted per-decision IS" if values is None else "sequential DR"


def paired(candidate: list[Estimate], baseline: list[Estimate]) -> list[Estimate]:
    """Returns the candidate's minus the baseline's estimate for every estimator; both lists have the same order."""
    return [paired_difference(ours, theirs) for ours, theirs in zip(candidate, baseline, strict=True)]
