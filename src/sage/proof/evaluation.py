"""Off-policy evaluation: a policy's gain over the incumbent, on logged tasks that it was not learned from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from rl_base.evaluation import BanditLog, Interval, Report, compare_bandit, worst_case_interval
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.missing import fill_missing
from sage.evidence.completeness import UNCHECKED, Completeness
from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log
from sage.evidence.missingness import Missingness, find_gaps
from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.quality_and_cost import QualityAndCost, estimate_both, version_of
from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import unseen
from sage.evidence.task_evidence import EvaluationError, predict_for_proof
from sage.evidence.tasks import TaskBasis, basis_of, tasks_seen
from sage.policies.cells import Cells
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import RoutingPolicy
from sage.policies.serving import GuardRules, serving_distribution
from sage.proof.evaluation_text import summary_of
from sage.proof.look_plan import PLANNED, LookPlan
from sage.proof.power import ANYTIME, LEVEL, ONE_LOOK, Power, errors_of, over_next_tasks, power_of
from sage.proof.tenants import PointEstimate, TenantGain, by_tenant, estimate_rows
from sage.proof.trend import Trend, find_trend

FEWEST_TASKS = 10  # in which the policies differ: with fewer, 95 % intervals held in .82 to .93 of drawn logs
NOT_EVIDENCE = "made of synthetic rows: it shows that the commands work, and says nothing about real models"


@dataclass(frozen=True, kw_only=True)
class OfflineEvaluation:
    """An estimated gain over the incumbent, with the facts that a reader needs to judge it."""

    report: Report  # missing outcomes taken to be like those of the same model in the same cell
    missing: Missingness
    policy: str
    policy_version: str
    incumbent: str
    incumbent_version: str
    learner: str
    data_source: str
    data_sha256: str
    reward_version: str
    num_rows: int
    basis: TaskBasis
    left_out_rows: int  # of tasks that the policy was learned from
    floor: float
    acting_share: float  # of rows in which the policy, not the incumbent, decides
    differing_share: float  # of rows in which the first choices differ, below the floor or not
    mean_logged_reward: float
    shadow_rows: int = 0  # in which the outcome of a second model counts
    shadow_usd: float | None = None  # what these second calls cost, as far as it is known
    method: str  # of the intervals
    seed: int
    objective: Objective = DEFAULT
    parts: QualityAndCost | None = None  # None where the report refuses
    tenants: dict[str, TenantGain] = field(default_factory=dict)  # where there are two or more
    selection: str = ""  # which rows and outcomes were taken, and how many were not
    completeness: Completeness = UNCHECKED  # what the log lacks
    wanted_share: float = 1.0  # of outcomes that were drawn to be reported: others count nowhere
    plan: LookPlan | None = None  # of the looks, where they are planned
    first_row: str = ""  # id of the first judged decision: the same at every planned look
    power: Power | None = None
    next_tasks: Interval | None = None  # of the mean gain over as many other tasks like these
    trend: Trend | None = None  # None where older or newer rows have too few outcomes of the policy's models

    @property
    def bound(self) -> Interval | None:
        """Returns the interval whose low end decides; it holds whatever the missing outcomes were."""
        return self.missing.worst_case or self.report.interval

    @property
    def num_tasks(self) -> int:
        return self.basis.tasks

    @property
    def evidence(self) -> bool:
        """Returns False for synthetic rows, which prove nothing about real models."""
        return self.data_source != "synthetic"

    def __str__(self) -> str:
        return summary_of(self)

    def to_json(self) -> dict:
        """Returns the evaluation as plain values; the same file, checkpoint and seed give the same values."""
        own = asdict(self) | {"objective": self.objective.name, "num_tasks": self.num_tasks}
        del own["report"]  # which comes last, in its own form
        note = {} if self.evidence else {"note": NOT_EVIDENCE}
        return {"evidence": self.evidence, **note, **own, **json.loads(self.report.to_json())}


def evaluate_offline(
    data: RoutingData,
    policy: LearnedPolicy,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective = DEFAULT,
    floor: float,
    method: Method = ANYTIME,
    plan: LookPlan | None = None,
    seed: int = 0,
) -> OfflineEvaluation:
    """Estimates the reward per decision of the policy as it would serve, minus the incumbent's.

    The incumbent is `static`, or else the log's most likely model; below the confidence `floor` it decides. Under an
    objective with a limit the reward is the quality, and cost is estimated beside it. At a look of a `plan`, intervals
    hold together with those of the other looks, and `method` does not count. Raises EvaluationError if every task was
    learned from, or if the policy does not fit the log; LookPlanError if the plan has no look at so many rows.
    """
    version = version_of(data, objective)
    check_compatible(data, policy, version)
    seen = tasks_seen(data.contexts.task_id, data.tasks, policy.training.task_hashes)
    if not (data.observed & ~seen).any():
        raise EvaluationError(
            f"every task of the {len(data)} rows was used to learn {policy.name} {policy.version}: train on a part of the "
            "log (--holdout), or give newer rows"
        )
    rows = data.select(~seen)
    incumbent = incumbent_of(rows, static)
    guard = GuardRules(floor, fallback=incumbent)
    candidate = serving_distribution(policy, guard, rows.contexts, rows.models, rows.eligible).probabilities
    acting = incumbent.differs(candidate)
    log, observed = bandit_log(rows, Cells.of(rows.contexts), objective.weights, shadows=True), rows.observed
    absent = rows.completeness.weights(log)
    level, width = (LEVEL, method) if plan is None else (plan.level(len(rows), LEVEL), ONE_LOOK)
    how = {"observed": observed, "absent": absent, "seed": seed}
    predictions = predict_for_proof(log, candidate, incumbent.probabilities, observed, seed)
    policies = (candidate, incumbent.probabilities)
    report, worst = compare(log, *policies, **how, predictions=predictions, level=level, method=width)
    filled = fill_missing(log, ~observed, predictions)
    limit = 0.0 - objective.margin
    power = power_of(filled, *policies, predictions, report, method=width, plan=plan, worst=worst, limit=limit)
    errors = errors_of(filled, *policies, predictions, report)
    if plan is not None:
        report, worst = replace(report, interval=planned(report.interval)), planned(worst)

    mean_logged = rows.drawn_mean(np.where(observed, rows.reward(objective.weights), np.nan))
    assert mean_logged is not None

    def gain_of(some: np.ndarray) -> PointEstimate:
        return estimate_rows(rows.select(some), candidate[some], incumbent.probabilities[some], objective, seed)

    return OfflineEvaluation(
        report=report,
        missing=find_gaps(log, rows.models, observed, worst),
        policy=policy.name,
        policy_version=policy.version,
        incumbent=incumbent.name,
        incumbent_version=incumbent.version,
        learner=policy.training.learner,
        data_source=rows.source,
        data_sha256=data.sha256,
        reward_version=version,
        num_rows=len(rows),
        basis=basis_of(rows.contexts.task_id, rows.tasks),
        left_out_rows=int(seen.sum()),
        floor=floor,
        acting_share=float(acting.mean()),
        differing_share=float((raw_choice(rows, policy) != incumbent.probabilities.argmax(axis=1)).mean()),
        mean_logged_reward=mean_logged,
        shadow_rows=0 if log.beside_actions is None else int((log.beside_actions >= 0).sum()) - unseen(log),
        shadow_usd=None if rows.shadows is None else float(np.nansum(rows.shadows.cost_usd)),
        method=method if plan is None else PLANNED,
        seed=seed,
        objective=objective,
        parts=None
        if report.refusal
        else estimate_both(rows, candidate, incumbent.probabilities, level=level, method=width, seed=seed),
        tenants={} if report.refusal else by_tenant(rows.tenant, rows.contexts.task_id, acting, gain_of),
        completeness=rows.completeness,
        wanted_share=1.0 if rows.sampled is None else float(rows.sampled.mean()),
        plan=plan,
        first_row=str(rows.decision_id[0]),
        power=power,
        next_tasks=None
        if errors is None or report.value is None or report.interval is None
        else over_next_tasks(worst or report.interval, report.value, errors),
        trend=None if report.refusal else find_trend(log, *policies, observed=observed, **clock_of(rows, policy)),
    )


def clock_of(rows: RoutingData, policy: LearnedPolicy) -> dict:
    """Returns what a trend needs to know of time: when rows were decided, and which of them by the policy."""
    served = (rows.policy == policy.name) & (rows.policy_version == policy.version)
    return {"time": rows.time, "clock": rows.source == "real", "served": served}


def planned(found: Interval | None) -> Interval | None:
    """Returns the interval of one planned look under the level at which those of all looks hold together."""
    return None if found is None else replace(found, level=LEVEL, method=PLANNED)


def compare(
    log: BanditLog,
    candidate: np.ndarray,
    incumbent: np.ndarray,
    *,
    observed: np.ndarray,
    absent: np.ndarray | None = None,
    predictions: np.ndarray | None = None,
    level: float = LEVEL,
    method: Method = ANYTIME,
    seed: int = 0,
) -> tuple[Report, Interval | None]:
    """Returns the report of the doubly robust paired difference, and an interval for whatever missing outcomes were.

    Policies are probabilities [n, models]; rewards are predicted from other tasks than the row's. The report takes
    missing outcomes to be as predicted. `absent` [m] are the weights of rows that the log lacks, None for none. The
    interval is None if nothing is missing or the report refuses.
    """
    if predictions is None:
        predictions = predict_for_proof(log, candidate, incumbent, observed, seed)
    filled = fill_missing(log, ~observed, predictions)
    report = compare_bandit(
        filled, candidate, incumbent, predictions=predictions, level=level, method=method, seed=seed
    )
    tasks = len(np.unique(log.cluster_index[(candidate != incumbent).any(axis=1)]))
    if 0 < tasks < FEWEST_TASKS and not report.refusal:
        few = f"the policies differ in rows of {tasks} tasks, fewer than {FEWEST_TASKS}: log more tasks of these kinds"
        report = replace(report, rows=(), interval=None, refusal=few)
    known = (observed | ~log.tries[0].made).all() and not unseen(log)
    if report.refusal or (known and absent is None):
        return report, None
    gaps = {"missing": ~observed, "absent": absent}
    return report, worst_case_interval(log, candidate, incumbent, predictions, **gaps, level=level, method=method)


def raw_choice(data: RoutingData, policy: LearnedPolicy) -> np.ndarray:
    return policy.probabilities(data.contexts, data.models, data.eligible).argmax(axis=1)


def check_compatible(data: RoutingData, policy: LearnedPolicy, reward_version: str) -> None:
    """Raises EvaluationError if the policy has other features, models or rewards than the log."""
    training = policy.training
    if training.features_version not in (0, data.features_version):
        raise EvaluationError(
            f"the policy was learned with features version {training.features_version}, the log has "
            f"{data.features_version}: export and train again"
        )
    if not set(policy.models) & set(data.models):
        raise EvaluationError(
            f"the policy knows {', '.join(policy.models)}, and the log has none of them ({', '.join(data.models)}): is it "
            "the log of another pool?"
        )
    if training.reward_version not in ("given", reward_version):
        raise EvaluationError(
            f"the policy was learned for {training.reward_version}, and log and objective ask for {reward_version}: export the "
            "same parts (cost, latency), give the models.yaml it was trained with, or train again"
        )
