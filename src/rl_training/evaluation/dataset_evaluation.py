"""Off-policy evaluation of a policy on a dataset: the probabilities of its logged actions, or the reason for a refusal."""

from __future__ import annotations

import numpy as np
import torch

from rl_base.evaluation.intervals import Method
from rl_base.evaluation.logs import BanditLog, EpisodeLog
from rl_base.evaluation.policy_value import evaluate_bandit, evaluate_episodes
from rl_base.evaluation.report import Report
from rl_training.algorithms.fqe import action_probabilities
from rl_training.core import ActionConverter, Box, Discrete, Policy
from rl_training.core.converters import EDGE
from rl_training.data import Dataset
from rl_training.evaluation.fqe_values import TargetPolicy, chunks, cross_fitted_q
from rl_training.models.executed_actions import executed_log_prob

PROPENSITIES = "propensities"  # the extra column of one-step data that holds the probability of every action


def evaluate_on_dataset(
    target: TargetPolicy, data: Dataset, *, updates: int, level: float, method: Method, seed: int
) -> Report:
    """Returns a report with every estimator's value of the policy, or one with a reason if the data support none.

    The value is the expected return; `level` and `method` are those of the intervals. If all episodes have one step and
    actions are discrete, rows are evaluated as single decisions. Other episodes get values from fitted Q evaluation,
    with `updates` updates for each half of the episodes (0: importance sampling alone).
    """
    refusal = why_not(target.policy, data, target.deterministic)
    if refusal is not None:
        return Report("expected return per episode", "none", (), None, {}, refusal)
    assert data.log_prob is not None
    behaviour = np.exp(data.log_prob.astype(np.float64))
    if isinstance(data.spec.action, Discrete) and len(data.episodes().stop) == len(data):
        return one_step(target.policy, data, behaviour, target.deterministic, level, method, seed)
    log = EpisodeLog(
        episodes=data.episodes().index_of(np.arange(len(data))),
        rewards=data.reward,
        propensities=behaviour,
        gamma=target.gamma,
        densities=isinstance(data.spec.action, Box),
    )
    taken = probabilities_of_taken(target.policy, data, target.deterministic)
    values = cross_fitted_q(target, data, updates, seed) if updates else None
    return evaluate_episodes(log, taken, values=values, level=level, method=method, seed=seed)


def why_not(policy: Policy, data: Dataset, deterministic: bool) -> str | None:
    """Returns the reason why the data's rows cannot be weighted by the policy's probabilities; None if they can."""
    if data.log_prob is None:
        return (
            "the dataset does not say with what probability its actions were taken (log_prob): log it, or use "
            "evaluation.fitted_q, which needs none and can be wrong"
        )
    if not isinstance(data.spec.action, Box | Discrete):
        return f"{type(data.spec.action).__name__} actions are not supported: use Discrete or Box"
    clipped: np.ndarray = np.zeros(len(data), bool)
    if isinstance(data.spec.action, Box):
        if deterministic or not hasattr(policy, "distribution"):
            return (
                "a deterministic policy gives continuous actions no density: evaluate with deterministic=False, or use "
                "evaluation.fitted_q"
            )
        if policy.to_env.rounds:
            return "actions are rounded to whole numbers, which have no density: use evaluation.fitted_q"
        if (refusal := why_not_by_bounds(policy, data)) is not None:
            return refusal
        clipped = np.any(near(data.action, policy.to_env)[1], axis=-1)
    if len(rows := np.flatnonzero(np.isnan(data.log_prob))):
        what = f"log_prob is unknown (NaN) in {len(rows):,} of {len(data):,} rows, first in row {rows[0]}"
        if clipped[rows].all():
            what += (
                ", all with actions that were clipped to a bound: log the logarithm of the probability of being clipped "
                "there, as make_data does (older versions did not: make the data again)"
            )
        return f"{what}; evaluation.fitted_q needs none and can be wrong"
    return None


def why_not_by_bounds(policy: Policy, data: Dataset) -> str | None:
    """Returns the reason why actions at or beyond a bound forbid weighting by probabilities; None if they do not."""
    assert isinstance(data.spec.action, Box)
    assert data.log_prob is not None
    outside, at = near(data.action, policy.to_env)
    if policy.squashed and len(rows := np.flatnonzero(outside.any(-1))):
        return (
            f"the action of row {rows[0]} is outside its bounds, where this policy never acts: log actions as the environment "
            "took them, with the probability of being clipped, or use evaluation.fitted_q"
        )
    own = near(data.action, ActionConverter(data.spec.action, squashed=False))[1]
    if not data.provenance.spec_inferred and len(rows := np.flatnonzero((own != at).any(-1))):
        return (
            f"the action of row {rows[0]} is at a bound of the data's actions and not of the agent's, or the other way round: use "
            "data of an environment with the same bounds, or evaluation.fitted_q"
        )
    if len(rows := np.flatnonzero(at.all(-1) & (data.log_prob > 1e-5))):
        return (
            f"log_prob is {data.log_prob[rows[0]]:g} in row {rows[0]}, whose action is at its bounds: there it must be the "
            "logarithm of the probability of being clipped, which is at most 0, and not that of a density"
        )
    return None


def near(action: np.ndarray, convert: ActionConverter) -> tuple[np.ndarray, np.ndarray]:
    """Returns two bool arrays [n, components]: action components beyond their bounds, and those at a bound.

    The bounds are those of `convert`; the actions [n, ...] are in the environment's units.
    """
    low, high = convert.low.numpy(), convert.high.numpy()
    margin = np.where(np.isfinite(high - low), EDGE * (high - low) / 2, 0)
    action = action.reshape(len(action), -1)
    outside = (action < low - margin) | (action > high + margin)
    return outside, ~outside & ((action <= low + margin) | (action >= high - margin))


@torch.no_grad()
def one_step(
    policy: Policy, data: Dataset, behaviour: np.ndarray, deterministic: bool, level: float, method: Method, seed: int
) -> Report:
    assert isinstance(data.spec.action, Discrete)
    actions = data.action - data.spec.action.start
    num = data.spec.action.num
    if PROPENSITIES in data.extras:  # of all actions: then it is known which ones had no chance
        propensities = np.asarray(data.extras[PROPENSITIES], np.float64)
    else:
        propensities = np.full((len(data), num), np.nan)
        propensities[np.arange(len(data)), actions] = behaviour
    target = np.concatenate(
        [action_probabilities(policy, steps.obs, num, deterministic).double().numpy() for steps in chunks(data)]
    )
    leaves = data.obs.values() if isinstance(data.obs, dict) else [data.obs]
    features = np.concatenate([np.asarray(leaf, np.float64).reshape(len(data), -1) for leaf in leaves], 1)
    log = BanditLog(actions=actions, rewards=data.reward, propensities=propensities, features=features)
    return evaluate_bandit(log, target / target.sum(1, keepdims=True), level=level, method=method, seed=seed)


@torch.no_grad()
def probabilities_of_taken(policy: Policy, data: Dataset, deterministic: bool) -> np.ndarray:
    """Returns [n] the policy's probability of every logged action; for continuous actions a density.

    For an action clipped to a bound, the probability of being clipped stands in place of the density.
    """
    space, parts = policy.spec.action, []
    for steps in chunks(data):
        action = policy.to_env.inverse(steps.action)
        if isinstance(space, Discrete):
            table = action_probabilities(policy, steps.obs, space.num, deterministic)
            parts.append(table.gather(-1, action.unsqueeze(-1)).squeeze(-1).double())
        else:
            log_prob = executed_log_prob(policy, steps.obs, action)
            assert log_prob is not None
            parts.append(log_prob.exp())
    taken = torch.cat(parts).numpy()
    return np.minimum(taken, 1.0) if isinstance(space, Discrete) else taken
