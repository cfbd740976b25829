"""What the log says for people: cost, quality, what was saved, by role, by model and by policy."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sage.cascade_report import calls, summarize_cascades
from sage.decision_log import DecisionLog
from sage.files import read_text, write_text
from sage.records import DATA_SOURCES, Decision, Outcome
from sage.report_page import render
from sage.rl.export_dataset import STRONGEST_FIRST

OF_AN_EVALUATION = ("policy", "incumbent", "data_source", "evidence", "num_rows")
LEAST_EFFECTIVE = 50.0  # rows: below it an estimate is not given, as everywhere in sage


class ReportError(ValueError):
    """A report that cannot be written: the sentence says why and what to do."""


@dataclass
class Group:
    """Decisions that share something, with what is known of them."""

    decisions: int = 0
    quality: list[float] = field(default_factory=list)
    cost_usd: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome | None) -> None:
        self.decisions += 1
        if outcome is None:
            return
        quality = 0.0 if outcome.timed_out else outcome.quality
        for values, value in (
            (self.quality, quality),
            (self.cost_usd, outcome.cost_usd),
            (self.latency_s, outcome.latency_s),
        ):
            if value is not None:
                values.append(value)

    def summary(self) -> dict:
        return {
            "decisions": self.decisions,
            "outcomes": len(self.quality),
            "quality": mean(self.quality),
            "cost_usd": mean(self.cost_usd),
            "total_cost_usd": float(np.sum(self.cost_usd)) if self.cost_usd else None,
            "latency_s": mean(self.latency_s),
        }


def write_report(path: Path, db: str, *, data_source: str | None = None, evaluation: Path | None = None) -> None:
    """Writes one self-contained HTML page about one source of decisions."""
    write_text(path, render(summarize(db, data_source=data_source, evaluation=evaluation)))


def summarize(db: str, *, data_source: str | None = None, evaluation: Path | None = None) -> dict:
    """Everything that the page shows, as plain values."""
    if not Path(db).is_file():
        raise ReportError(f"{db}: there is no such log: give --db, or start one with `sage route`")
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
        "savings": savings([row for row in rows if row[0].cascade is None]),
        "cascades": cascades,
        "evaluation": None if evaluation is None else read_evaluation(evaluation),
    }


def answered_by(decision: Decision, outcome: Outcome | None) -> str:
    """The chosen model, or the one that the provider fell back to."""
    return decision.model if outcome is None or outcome.model is None else outcome.model


def group_by(
    rows: Iterable[tuple[Decision, Outcome | None]], key: Callable[[Decision, Outcome | None], str]
) -> dict[str, dict]:
    groups: defaultdict[str, Group] = defaultdict(Group)
    for decision, outcome in rows:
        groups[key(decision, outcome)].add(outcome)
    return {name: groups[name].summary() for name in sorted(groups)}


def savings(rows: list[tuple[Decision, Outcome | None]]) -> dict:
    """What always taking each model would have cost and given, by self-normalised importance weighting.

    Only rows with quality and cost count, and only those that the chosen model answered. The best model is that of the
    highest estimated quality; models with fewer than 50 effective rows are named, not judged.
    """
    used = [
        (d, 0.0 if o.timed_out or o.quality is None else o.quality, o.cost_usd)
        for d, o in rows
        if o is not None and o.cost_usd is not None and (o.timed_out or o.quality is not None)
        if answered_by(d, o) == d.model
    ]
    if not used:
        return {"rows": 0, "models": {}, "too_few": [], "best": None}
    models: dict[str, dict] = {}
    too_few = []
    for model in sorted({d.model for d, _, _ in used}):
        chosen = [(1 / d.propensity, quality, cost) for d, quality, cost in used if d.model == model]
        weight, quality, cost = np.array(chosen, np.float64).T
        effective = weight.sum() ** 2 / (weight**2).sum()
        if effective < LEAST_EFFECTIVE:
            too_few.append(model)
            continue
        models[model] = {
            "effective_rows": float(effective),
            "quality": float((weight * quality).sum() / weight.sum()),
            "cost_usd": float((weight * cost).sum() / weight.sum()),
        }
    quality, cost = float(np.mean([row[1] for row in used])), float(np.mean([row[2] for row in used]))
    best = max(models, key=lambda name: models[name]["quality"], default=None)
    found: dict = {
        "rows": len(used),
        "models": models,
        "too_few": too_few,
        "best": best,
        "quality": quality,
        "cost_usd": cost,
    }
    if best is not None:
        saved = models[best]["cost_usd"] - cost
        found |= {
            "saved_usd": saved * len(used),
            "saved_share": saved / models[best]["cost_usd"] if models[best]["cost_usd"] else None,
            "quality_against_best": quality - models[best]["quality"],
        }
    return found


def read_evaluation(path: Path) -> dict:
    """What `sage rl eval-offline` wrote."""
    if not path.is_file():
        raise ReportError(f"{path}: there is no such evaluation: make it with `sage rl eval-offline --out {path}`")
    try:
        values = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not whole JSON ({error}): evaluate again") from error
    missing = [name for name in OF_AN_EVALUATION if not isinstance(values, dict) or name not in values]
    if missing:
        raise ReportError(
            f"{path}: not an evaluation, as it has no {missing[0]!r}: make it with `sage rl eval-offline`"
        )
    return values


def mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
