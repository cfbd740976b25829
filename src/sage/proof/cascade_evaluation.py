"""Off-policy evaluation of cascades: sequential doubly robust estimates from logged episodes, clustered by task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rl_base.evaluation import (
    BanditLog,
    EpisodeLog,
    Estimate,
    Interval,
    Report,
    compare_episodes,
    interval,
    paired_difference,
    ratio_moments,
    sequential_doubly_robust,
    step_sample_sizes,
    worst_case_episodes,
)
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.missing import missing_rate_p_values, too_few_p_values
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.incumbent import LOGGED, IncumbentError
from sage.evidence.missingness import Missingness, ModelGaps
from sage.evidence.objective import DEFAULT, Objective, weighted
from sage.evidence.quality_and_cost import COST_SCALE, Amount, QualityAndCost, ratio_of
from sage.evidence.task_evidence import EvaluationError
from sage.evidence.tasks import basis_of, tasks_seen
from sage.policies.cascades.cascade_policy import CascadePolicy, taken_column
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.proof.evaluation import ANYTIME, FEWEST_TASKS, LEVEL, OfflineEvaluation
from sage.proof.tenants import PointEstimate, by_tenant
from sage.rl.cascades.cascade_estimates import (
    Values,
    episode_values,
    fitted_parts,
    incumbent_target,
    net_of_cost,
    part_rewards,
    target_of,
)
from sage.rl.cascades.cascade_learning import episode_log, reward_version


@dataclass(frozen=True, kw_only=True)
class CascadeEvaluation(OfflineEvaluation):
    """An estimated gain per episode, in quality less `price` times dollars; `parts` holds quality and dollars apart.

    `num_rows` counts episodes, and `acting_share` is the share of them in which the two cascades differ. Under an
    objective with a limit the price is 0, and the report is of quality.
    """

    price: float
    step_sample_sizes: dict[str, list[float]]  # of each policy, by step


def evaluate_cascade(
    data: CascadeData,
    policy: LearnedCascade,
    *,
    static: CascadePolicy | None = None,
    objective: Objective | None = None,
    floor: float = 0.0,
    method: Method = ANYTIME,
    seed: int = 0,
) -> CascadeEvaluation:
    """Estimates the candidate's reward per episode minus the incumbent's, on tasks that it was not learned from.

    The incumbent is `static`, or else the most likely action of the log in every state. Without an objective the price
    is the one that the cascade was learned for. Raises EvaluationError if every task was learned from, or if no model
    is shared.
    """
    objective = objective or (DEFAULT if policy.price == price_of(DEFAULT) else weighted(cost=policy.price))
    price = price_of(objective)
    check_models(data, policy)
    seen = tasks_seen(data.contexts.task_id, data.tasks, policy.training.task_hashes)
    if not (data.observed & ~seen).any():
        raise EvaluationError(
            f"every task of the {len(data)} episodes was used to learn {policy.name} {policy.version}: train on a part of the "
            "episodes (--holdout), or give newer ones"
        )
    episodes = data.select(~seen)
    name, version = (LOGGED, logged_version(episodes)) if static is None else (static.name, static.version)
    targets = {"candidate": target_of(episodes, policy), "baseline": incumbent_target(episodes, static)}
    differ = np.bincount(episodes.episode, (targets["candidate"] != targets["baseline"]).any(axis=1), len(episodes)) > 0
    found = compare(episodes, targets, price, differ=differ, method=method, seed=seed)
    rewards = np.bincount(episodes.episode, np.nan_to_num(episodes.rewards(price)), len(episodes))

    def gain_of(some: np.ndarray) -> PointEstimate:
        steps = some[episodes.episode]
        return estimate_episodes(
            episodes.select(some), {name: target[steps] for name, target in targets.items()}, price, objective, seed
        )

    return CascadeEvaluation(
        report=found.report,
        missing=find_cascade_gaps(episodes, found.worst),
        policy=policy.name,
        policy_version=policy.version,
        incumbent=name,
        incumbent_version=version,
        learner=policy.training.learner,
        data_source=data.data_source,
        data_sha256=data.sha256,
        reward_version=reward_version(price),
        num_rows=len(episodes),
        basis=basis_of(episodes.contexts.task_id, episodes.tasks),
        left_out_rows=int(seen.sum()),
        floor=floor,
        acting_share=float(differ.mean()),
        differing_share=float(differ.mean()),
        mean_logged_reward=float(rewards[episodes.observed].mean()),
        method=method,
        seed=seed,
        objective=objective,
        parts=found.parts,
        tenants={} if found.report.refusal else by_tenant(episodes.tenant, episodes.contexts.task_id, differ, gain_of),
        price=price,
        step_sample_sizes=found.step_sample_sizes,
    )


def price_of(objective: Objective) -> float:
    """Returns the objective's price, in quality per dollar; 0 if it has a limit, because the reward is then quality."""
    weights = objective.weights
    return 0.0 if objective.constrained else weights.cost / weights.cost_scale_usd / weights.quality


class CascadeComparison(NamedTuple):
    """The difference of two cascades, candidate minus baseline, per episode."""

    report: Report
    worst: Interval | None  # holds whatever was not reported; None where all was, or where the report refuses
    parts: QualityAndCost | None
    step_sample_sizes: dict[str, list[float]]


def compare(
    episodes: CascadeData,
    targets: dict[str, np.ndarray],
    price: float,
    *,
    differ: np.ndarray,
    method: Method = ANYTIME,
    seed: int = 0,
) -> CascadeComparison:
    """Compares the two `targets`, candidate and baseline, by sequential doubly robust estimates.

    Targets are probabilities [n, models + 1] in the logged states; `differ` [episodes] marks the episodes in which they
    differ. Values are linear in the rewards, so that those of quality less price times cost follow from those of the
    two.
    """
    known, ends = episodes.observed[episodes.episode], np.diff(episodes.episode, append=-1) != 0
    fits = [fitted_parts(episodes, target, known, seed) for target in targets.values()]
    taken = [target[np.arange(len(target)), episodes.action] for target in targets.values()]
    values = (net_of_cost(fits[0], price), net_of_cost(fits[1], price))
    missing = ends & ~known
    log = filled_log(episodes, price, missing, (values[0][0] + values[1][0]) / 2)
    drawable = [ratio_moments(target, episodes.propensity) for target in targets.values()]
    moments = (drawable[0], drawable[1])
    report = compare_episodes(log, *taken, values=values, moments=moments, level=LEVEL, method=method, seed=seed)
    tasks = len(np.unique(episodes.contexts.task_id[differ]))
    if 0 < tasks < FEWEST_TASKS and not report.refusal:
        few = f"the cascades differ in {tasks} tasks, fewer than {FEWEST_TASKS}: log more tasks of these kinds"
        report = replace(report, rows=(), interval=None, refusal=few)
    sizes = {name: step_sample_sizes(log, own).tolist() for name, own in zip(targets, taken, strict=True)}
    if report.refusal:
        return CascadeComparison(report, None, None, sizes)
    quality, cost = (
        part_amount(episodes, part, taken, (fits[0][part], fits[1][part]), missing, method)
        for part in ("quality", "cost_usd")
    )
    own = part_amount(episodes, "cost_usd", taken[:1], (fits[0]["cost_usd"],), missing, method)
    theirs = part_amount(episodes, "cost_usd", taken[1:], (fits[1]["cost_usd"],), missing, method)
    means = part_estimates(part_log(episodes, "cost_usd"), taken, (fits[0]["cost_usd"], fits[1]["cost_usd"]), missing)
    parts = QualityAndCost(
        quality=quality,
        cost_usd=cost,
        usd_per_task=own,
        incumbent_usd_per_task=theirs.value,
        cost_ratio=ratio_of(means[0], means[1], cost, level=LEVEL, method=method),
    )
    if known.all():
        return CascadeComparison(report, None, parts, sizes)
    limits = reward_range(episodes, price)
    ours, base = taken
    worst = worst_case_episodes(log, ours, base, values, missing, limits, level=LEVEL, method=method)
    return CascadeComparison(report, worst, parts, sizes)


def part_amount(
    episodes: CascadeData,
    part: str,
    taken: list[np.ndarray],
    values: tuple[Values, ...],
    missing: np.ndarray,
    method: Method,
) -> Amount:
    """Returns the mean quality or cost of the first policy, or of the first minus the second if there are two.

    `taken` and `values` hold, for each policy, the probability [n] of the logged action, and Q and V. The interval
    holds whatever was not reported at the ends that are True in `missing` [n].
    """
    if part == "cost_usd" and episodes.ended.all() and not np.isnan(episodes.cost_usd).any():
        missing = np.zeros_like(missing)
    log = part_log(episodes, part)
    found = part_estimates(log, taken, values, missing)
    value = found[0] if len(found) == 1 else paired_difference(*found)
    skewed = part == "cost_usd"
    least = np.finfo(float).tiny
    scale = 0.05 if part == "quality" else max(COST_SCALE * float(np.nanmean(episodes.total_cost)), least)
    around = interval(value, method=method, level=LEVEL, scale=scale, skewed=skewed)
    low, high = around.low, around.high
    if missing.any():
        nothing = np.zeros(len(missing))
        other, of_other = (nothing, (nothing, nothing)) if len(found) == 1 else (taken[1], values[1])
        worst = worst_case_episodes(
            log,
            taken[0],
            other,
            (values[0], of_other),
            missing,
            limits_of(episodes, part),
            level=LEVEL,
            method=method,
        )
        low, high = min(low, worst.low), max(high, worst.high)
    return Amount(value=value.value, low=low, high=high, missing=int(missing.sum()))


def limits_of(episodes: CascadeData, part: str) -> tuple[float, float]:
    """Returns the range of an episode's quality or cost; no episode is assumed to cost more than the log's dearest."""
    return (0.0, 1.0) if part == "quality" else (0.0, float(np.nanmax(episodes.total_cost)))


def part_log(episodes: CascadeData, part: str) -> EpisodeLog:
    """Returns the episodes as a log whose rewards are qualities or costs."""
    rewards = part_rewards(episodes, part)
    return replace(episode_log(episodes, 0.0), rewards=rewards, reward_range=limits_of(episodes, part))


def part_estimates(
    log: EpisodeLog, taken: list[np.ndarray], values: tuple[Values, ...], missing: np.ndarray
) -> list[Estimate]:
    """Returns the mean of each policy; an unreported end (True in `missing` [n]) counts as its expected value."""
    return [
        sequential_doubly_robust(replace(log, rewards=np.where(missing, of[0], log.rewards)), own, *of)
        for own, of in zip(taken, values, strict=True)
    ]


def estimate_episodes(
    episodes: CascadeData, targets: dict[str, np.ndarray], price: float, objective: Objective, seed: int = 0
) -> PointEstimate:
    """Returns the estimated gain, candidate minus baseline, per episode, without an interval.

    `targets` are the probabilities [n, models + 1] of both. Dollars are estimated only under an objective with a limit,
    whose price is 0.
    """
    ours, base = targets["candidate"], targets["baseline"]
    gain = float(
        (episode_values(episodes, ours, price, seed=seed) - episode_values(episodes, base, price, seed=seed)).mean()
    )
    if not objective.constrained:
        return PointEstimate(gain)
    paid, theirs = (
        float(
            (episode_values(episodes, target, 0.0, seed=seed) - episode_values(episodes, target, 1.0, seed=seed)).mean()
        )
        for target in (ours, base)
    )
    return PointEstimate(gain, paid - theirs, paid)


def filled_log(episodes: CascadeData, price: float, missing: np.ndarray, expected: np.ndarray) -> EpisodeLog:
    """Returns the episodes as a log with rewards of quality less price times cost.

    Unreported ends, True in `missing` [n], get their `expected` value.
    """
    quality, cost = (part_rewards(episodes, part) for part in ("quality", "cost_usd"))
    limits = (-price * float(cost.max()), 1.0)
    return replace(
        episode_log(episodes, 0.0), rewards=np.where(missing, expected, quality - price * cost), reward_range=limits
    )


def reward_range(episodes: CascadeData, price: float) -> tuple[float, float]:
    """Returns the range of the reward at the unreported end of an episode.

    It includes the costs of a whole episode if some costs are not known, or an episode has not ended.
    """
    all_known = episodes.ended.all() and not np.isnan(episodes.cost_usd).any()
    dearest = 0.0 if all_known else price * float(np.nanmax(episodes.total_cost))
    return -dearest, 1.0 + dearest


def logged_version(episodes: CascadeData) -> str:
    """Returns name and version of the cascade that wrote the episodes.

    Raises IncumbentError if there are several.
    """
    policies = sorted(set(zip(episodes.policy.tolist(), episodes.policy_version.tolist(), strict=True)))
    if len(policies) > 1:
        raise IncumbentError(
            f"the episodes were written by {len(policies)} cascades ({', '.join(map(' '.join, policies))}), so they do not say "
            "what the incumbent would have done: give the table with --models models.yaml"
        )
    return " ".join(policies[0])


def find_cascade_gaps(episodes: CascadeData, worst: Interval | None) -> Missingness:
    """Counts missing outcomes by model, and tests if chance explains them.

    The model is the one whose answer was taken, or that was tried last.
    """
    models, stop = episodes.models, episodes.stop
    log = BanditLog(
        actions=episodes.action,
        rewards=np.zeros(len(episodes.action)),
        propensities=episodes.propensity,
        clusters=episodes.contexts.task_id[episodes.episode],
    )
    attempts, expected = np.bincount(episodes.action, minlength=stop + 1), episodes.propensity.sum(axis=0)
    ends = np.flatnonzero(np.diff(episodes.episode, append=-1))
    stopped = episodes.action[ends] == stop
    taken = np.where(stopped, taken_column(episodes.order[ends], episodes.verdict[ends]), episodes.action[ends])
    gaps = ~episodes.observed
    rate, too_few = missing_rate_p_values(taken, gaps, len(models)), too_few_p_values(log)
    missing = np.bincount(taken, gaps, len(models))
    found = {
        model: ModelGaps(
            decisions=int(attempts[k]),
            missing=int(missing[k]),
            expected_decisions=float(expected[k]),
            rate_p_value=float(rate[k]),
            too_few_p_value=float(too_few[k]),
        )
        for k, model in enumerate(models)
    }
    return Missingness(rows=int(gaps.sum()), models=found, worst_case=worst)


def check_models(data: CascadeData, policy: LearnedCascade) -> None:
    """Raises EvaluationError if the cascade and the episodes have no model in common."""
    if not set(policy.models) & set(data.models):
        raise EvaluationError(
            f"the cascade knows {', '.join(policy.models)}, and the episodes have none of them ({', '.join(data.models)}): are "
            "they of another pool?"
        )
