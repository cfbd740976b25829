"""Cost, quality and savings from a log, by role, by model and by policy."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from sage.evidence.export_dataset import STRONGEST_FIRST, shadow_alone
from sage.evidence.judged_quality import drawn_weight, judged_quality, weighted_mean
from sage.evidence.logged_rewards import bandit_log
from sage.evidence.objective import QUALITY
from sage.evidence.quality_and_cost import estimate_both
from sage.evidence.routing_data import RoutingData, RoutingDataError, could_answer
from sage.files import read_text, write_text
from sage.log.decision_log import DecisionLog
from sage.log.records import DATA_SOURCES, Decision, Outcome
from sage.policies.cells import Cells
from sage.proof.evaluation import FEWEST_TASKS, LEVEL, ONE_LOOK, compare
from sage.report.cascade_report import calls, summarize_cascades
from sage.report.report_page import render

OF_AN_EVALUATION = ("policy", "incumbent", "data_source", "evidence", "num_rows")


class ReportError(ValueError):
    """Error about a report that cannot be written; the message says why, and the fix."""


@dataclass
class Group:
    """Decisions that share something, with their known qualities, costs and latencies."""

    decisions: int = 0
    quality: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)  # of each quality: the decisions that it stands for
    cost_usd: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)

    def add(self, decision: Decision, outcome: Outcome | None) -> None:
        self.decisions += 1
        if outcome is None:
            return
        if (quality := judged_quality(decision, outcome)) is not None:
            self.quality.append(quality)
            self.weight.append(drawn_weight(decision))
        for values, value in ((self.cost_usd, outcome.cost_usd), (self.latency_s, outcome.latency_s)):
            if value is not None:
                values.append(value)

    def summary(self) -> dict:
        return {
            "decisions": self.decisions,
            "outcomes": len(self.quality),
            "quality": weighted_mean(self.quality, self.weight) if self.quality else None,
            "cost_usd": mean(self.cost_usd),
            "total_cost_usd": float(np.sum(self.cost_usd)) if self.cost_usd else None,
            "latency_s": mean(self.latency_s),
        }


def write_report(
    path: Path,
    db: str,
    *,
    data_source: str | None = None,
    against: str | None = None,
    proof: Path | None = None,
    served: Sequence[str] = (),
) -> None:
    """Writes one HTML page about one source of decisions; the other arguments are those of `summarize`.

    `served` are lines that compare promoted policies with their proofs.
    """
    found = summarize(db, data_source=data_source, against=against, proof=proof)
    write_text(path, render(found, served))


def summarize(
    db: str, *, data_source: str | None = None, against: str | None = None, proof: Path | None = None
) -> dict:
    """Returns everything that the page shows, as plain values.

    `data_source` None means the strongest in the log; `against` is the one model to compare routing with, None means
    each; `proof` is a file of `sage prove`. Raises ReportError if there is nothing to report on.
    """
    if not Path(db).is_file():
        raise ReportError(
            f"{db}: there is no such log: give --db, or start one with `sage serve` or `sage lab collect-synth`"
        )
    if data_source is not None and data_source not in DATA_SOURCES:
        raise ReportError(f"data_source={data_source!r} must be one of {', '.join(DATA_SOURCES)}")
    with closing(DecisionLog(db)) as log:
        counts, rows, unreadable, cascades = log.counts(), [], [], None
        source = data_source or next((name for name in STRONGEST_FIRST if counts[name]), None)
        if source is not None:
            every = list(log.rows(source, unreadable=unreadable))
            rows, cascades = list(calls(every)), summarize_cascades(every)
    present = [source for source in STRONGEST_FIRST if counts[source]]
    if source is None or not rows:
        raise ReportError(f"{db} has no decision{f' of data_source {source}' if source else ''}: route some first")
    return {
        "log": str(db),
        "data_source": source,
        "unreadable": unreadable,
        "evidence": source != "synthetic",
        "other_sources": {other: counts[other] for other in present if other != source},
        "from": min(decision.time for decision, _ in rows),
        "to": max(decision.time for decision, _ in rows),
        "total": group_by(rows, lambda *_: "all")["all"],
        "by_role": group_by(rows, lambda decision, _: decision.role),
        "by_model": group_by(rows, answered_by),
        "by_role_and_model": group_by(
            rows, lambda decision, outcome: f"{decision.role} / {answered_by(decision, outcome)}"
        ),
        "by_policy": group_by(rows, lambda decision, _: f"{decision.policy} {decision.policy_version}"),
        "shadows": group_by(
            [(made, told and told.shadow) for made, told in rows if made.shadow is not None],
            lambda decision, _: str(decision.shadow),
        ),
        "verdicts": dict(Counter(decision.verdict for decision, _ in rows).most_common()),
        "savings": savings([row for row in rows if row[0].cascade is None], against),
        "cascades": cascades,
        "evaluation": None if proof is None else read_evaluation(proof),
    }


def answered_by(decision: Decision, outcome: Outcome | None) -> str:
    """Returns the model that answered: the chosen one, or the one that the provider fell back to."""
    return decision.model if outcome is None or outcome.model is None else outcome.model


def group_by(
    rows: Iterable[tuple[Decision, Outcome | None]], key: Callable[[Decision, Outcome | None], str]
) -> dict[str, dict]:
    groups: defaultdict[str, Group] = defaultdict(Group)
    for decision, outcome in rows:
        groups[key(decision, outcome)].add(decision, outcome)
    return {name: groups[name].summary() for name in sorted(groups)}


def savings(rows: list[tuple[Decision, Outcome | None]], against: str | None = None) -> dict:
    """Returns how routing compares with always one model.

    If no decision can be judged, the reason is under 'refusal'.
    """
    judged = [(d, o if o is None or could_answer(d, o) else shadow_alone(o)) for d, o in rows]
    try:
        data = RoutingData.from_records(judged, gaps=True)
    except RoutingDataError as error:
        return {"rows": len(rows), "models": {}, "not_judged": {}, "refusal": str(error)}
    return compare_with_models(data, against)


def compare_with_models(data: RoutingData, against: str | None = None) -> dict:
    """Returns the doubly robust paired differences, routed minus always one model, with intervals by task.

    Intervals are valid at one look. They are of `against` alone, or hold for all models together (Bonferroni): the
    best of several estimates is too good, and so would be its interval. They hold whatever the missing outcomes were.
    A model that the log cannot judge has a reason under 'not_judged'. Raises ReportError if no answer of `against` is
    in the log.
    """
    tried = [str(data.models[k]) for k in np.unique(data.action)]
    if against is not None and against not in tried:
        raise ReportError(f"against={against!r}: the log has no answer of it, name one of {', '.join(tried)}")
    models = tried if against is None else [against]
    level = 1 - (1 - LEVEL) / len(models)
    judged, not_judged = {}, {}
    for model in models:
        support = data.propensity[:, data.models.index(model)] > 0
        reason = why_not_judged(data, always(data, model))
        if reason:
            not_judged[model] = reason
            continue
        parts = estimate_both(data, data.propensity, always(data, model), level=level, method=ONE_LOOK)
        judged[model] = {"could_answer": float(support.mean()), **asdict(parts)}
    return {
        "rows": len(data),
        "tasks": len(np.unique(data.contexts.task_id)),
        "against": against,
        "level": LEVEL,
        "models": judged,
        "not_judged": not_judged,
        "quality": data.drawn_mean(np.where(data.timed_out, 0.0, data.quality)),
        "cost_usd": data.drawn_mean(data.cost_usd),
    }


def always(data: RoutingData, model: str) -> np.ndarray:
    """Returns probabilities [n, models]: the model wherever the log could have chosen it, elsewhere as routed."""
    column = data.models.index(model)
    only = np.eye(len(data.models))[column]
    return np.where(data.propensity[:, column, None] > 0, only, data.propensity)


def why_not_judged(data: RoutingData, target: np.ndarray) -> str:
    """Returns the reason for which the gate would not judge this target either; '' if it would."""
    tasks = len(np.unique(data.contexts.task_id[data.observed]))
    if tasks < FEWEST_TASKS:
        return f"the log has outcomes of {tasks} tasks, fewer than {FEWEST_TASKS}"
    if (target == data.propensity).all():
        return "the log has no other model beside it to compare with"
    log = bandit_log(data, Cells.of(data.contexts), QUALITY, sampled=True)
    return compare(log, target, data.propensity, observed=data.observed, method=ONE_LOOK)[0].refusal or ""


def read_evaluation(path: Path) -> dict:
    """Returns the evaluation in what `sage prove` wrote; raises ReportError if the file has none."""
    if not path.is_file():
        raise ReportError(f"{path}: there is no such proof: make it with `sage prove CHECKPOINT --out {path}`")
    try:
        values = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not whole JSON ({error}): prove the checkpoint again") from error
    if isinstance(values, dict) and isinstance(values.get("report"), dict):
        values = values["report"]  # beside the verdict
    missing = [name for name in OF_AN_EVALUATION if not isinstance(values, dict) or name not in values]
    if missing:
        raise ReportError(
            f"{path}: not an evaluation, as it has no {missing[0]!r}: make it with `sage prove CHECKPOINT --out {path}`"
        )
    return values


def mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
