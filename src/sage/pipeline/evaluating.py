"""Evaluation: the gain of a checkpoint over the static table, on tasks that it was not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sage.evidence.completeness import UNCHECKED, Completeness, gaps_for_cascades
from sage.evidence.selection import Selection
from sage.log.decision_log import DecisionLog
from sage.pipeline.choices import DATABASE, INTERVALS
from sage.pipeline.inputs import (
    LogLike,
    check_seed,
    find_models_file,
    floor_of,
    is_sqlite,
    ladders_of,
    objective_of,
    path_of,
    path_or_none,
    read_cascades,
    read_decisions,
    select_from,
    static_of,
)
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import load_any
from sage.policies.learned_policy import LearnedPolicy
from sage.proof.cascade_evaluation import CascadeEvaluation, evaluate_cascade
from sage.proof.evaluation import ONE_LOOK, OfflineEvaluation, evaluate_offline
from sage.proof.look_ledger import enter_look, read_plan
from sage.proof.look_plan import LookPlan, LookPlanError

CASCADE_FLOOR = 0.0  # a cascade has no confidence below which another decides


class Look(NamedTuple):
    """An evaluation, and the number of looks that the policy has had, this one included; None if no log counts them."""

    found: OfflineEvaluation
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Question:
    """The arguments that `sage.evaluate` and `sage.gate` share; a wrong one is a `ValueError` that names it."""

    models: Path | None
    floor: float | None
    interval: str
    seed: int
    selection: Selection
    db: Path | None
    final_rows: int | None

    @classmethod
    def of(
        cls,
        *,
        models: str | Path | None,
        floor: float | None,
        interval: str,
        seed: int,
        sources: str | Sequence[str],
        tenants: str | Sequence[str],
        db: str | Path | None,
        final_rows: int | None,
    ) -> Question:
        """Turns what callers give into paths and a selection."""
        return cls(
            models=path_or_none(models),
            floor=floor,
            interval=interval,
            seed=seed,
            selection=select_from(sources, tenants),
            db=path_or_none(db),
            final_rows=final_rows,
        )

    def __post_init__(self) -> None:
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise ValueError(f"floor={self.floor} must lie between 0 and 1: it is a confidence")
        if self.interval not in INTERVALS:
            raise ValueError(f"interval={self.interval!r} must be one of {', '.join(INTERVALS)}")
        check_seed(self.seed)
        if self.db is not None and not self.db.is_file():
            raise ValueError(
                f"db={str(self.db)!r}: there is no such log, and looks are counted there: give the rows' log"
            )
        if self.final_rows is not None:
            LookPlan(final_rows=self.final_rows)
            if INTERVALS[self.interval] == ONE_LOOK:
                raise LookPlanError(
                    f"final_rows={self.final_rows} plans several looks, and --interval fixed-n is for one: give one of them"
                )

    def look(self, log: LogLike, checkpoint: Path) -> Look:
        """Judges a checkpoint on the log's rows, and writes the look down where looks are counted."""
        policy, ledger = load_any(checkpoint), self.ledger_of(log)
        if self.final_rows is not None and ledger is None:
            raise LookPlanError(
                f"final_rows={self.final_rows} is kept in the log that counts the looks, and there is none: give it with --db"
            )
        cascade = isinstance(policy, LearnedCascade)
        found = self.judge_cascade(log, policy) if cascade else self.judge_policy(log, policy, ledger)
        return Look(found, None if ledger is None else enter_look(ledger, found))

    def judge_policy(self, log: LogLike, policy: LearnedPolicy, ledger: Path | None) -> OfflineEvaluation:
        """Judges single decisions, with the floor below which the static table will decide."""
        chosen = read_decisions(log, self.selection)
        table = find_models_file(self.models, chosen.rows.models)
        found = evaluate_offline(
            chosen.rows,
            policy,
            static=static_of(table),
            objective=objective_of(table),
            floor=floor_of(table, self.floor),
            method=INTERVALS[self.interval],
            plan=None if ledger is None else self.plan_of(ledger, policy, chosen.rows.sha256),
            seed=self.seed,
        )
        return replace(found, selection=chosen.selection)

    def plan_of(self, ledger: Path, policy: LearnedPolicy, data_sha256: str) -> LookPlan | None:
        """Returns the plan that this look belongs to; None if the looks at this policy are not planned."""
        plan = read_plan(ledger, (policy.name, policy.version), self.final_rows, data_sha256)
        if plan is not None and INTERVALS[self.interval] == ONE_LOOK:
            raise LookPlanError(
                f"the looks at {policy.name} {policy.version} are planned, final_rows={plan.final_rows:,}: leave --interval out"
            )
        return None if plan is None else replace(plan, selection=str(self.selection))

    def judge_cascade(self, log: LogLike, policy: LearnedCascade) -> CascadeEvaluation:
        """Judges a cascade against the ladders of models.yaml, or else the most likely steps of the log."""
        if self.final_rows is not None:
            raise LookPlanError(
                f"final_rows={self.final_rows}: looks at cascades are not planned yet, leave --final-rows out"
            )
        if self.floor not in (None, CASCADE_FLOOR):
            raise ValueError(f"floor={self.floor}: a cascade has no confidence, leave --floor out")
        chosen = read_cascades(log, self.selection)
        table = find_models_file(self.models, chosen.rows.models)
        found = evaluate_cascade(
            chosen.rows,
            policy,
            static=ladders_of(table),
            objective=None if table is None else table.objective,
            floor=CASCADE_FLOOR,
            method=INTERVALS[self.interval],
            seed=self.seed,
        )
        return replace(found, selection=chosen.selection, completeness=completeness_of(log))

    def ledger_of(self, log: LogLike) -> Path | None:
        """Returns the log that counts the looks: the given one, else that of the rows, else sage.db of this folder."""
        path = path_of(log)
        if self.db is not None:
            return self.db
        if path is not None and is_sqlite(path):
            return path
        return DATABASE if DATABASE.is_file() else None


def completeness_of(log: LogLike) -> Completeness:
    """Returns what a log lacks for a proof of cascades; unchecked for rows that are not in a log."""
    path = path_of(log)
    if path is None or not is_sqlite(path):
        return UNCHECKED
    with closing(DecisionLog(path)) as opened:
        return gaps_for_cascades(opened)


def evaluate(
    log: LogLike,
    checkpoint: str | Path,
    *,
    models: str | Path | None = None,
    floor: float | None = None,
    interval: str = "anytime",
    seed: int = 0,
    sources: str | Sequence[str] = (),
    tenants: str | Sequence[str] = (),
    db: str | Path | None = None,
    final_rows: int | None = None,
) -> OfflineEvaluation:
    """Estimates the gain of a checkpoint over the static table, as it would serve, and counts the look.

    Rows of tasks that the policy was learned from are left out. The same rows, checkpoint and seed give the same
    evaluation, byte for byte; `to_json` gives it as plain values, and `print` shows a summary. A log that cannot judge
    the policy is a `ValueError`.

    Args:
        log: the SQLite log, a file that `sage log export` wrote, or rows: pairs of a `Decision` and its `Outcome`, or
            None for an outcome that nobody reported.
        checkpoint: a policy or a cascade that `train` wrote.
        models: the models.yaml with the static table, the objective and the floor; None takes models.yaml of this
            folder, if it has any of the log's models. Without one, the log's most likely choices are the incumbent.
        floor: the confidence below which the static table decides; None takes that of `models`.
        interval: "anytime" holds however often you look; "fixed-n" is shorter and holds for a single look. Not for
            planned looks.
        seed: decides the folds of the estimate.
        sources: only outcomes that these judged count (operator, ci, traffic, client); none given takes all.
        tenants: only rows of these; none given takes all.
        db: the log that counts the looks; None takes `log` if it is one, else sage.db of this folder, if there is one.
        final_rows: plans the looks: the judged rows that the last one will have. It is fixed in the log that counts the
            looks, at the first look; later ones need not give it again.
    """
    question = Question.of(
        models=models,
        floor=floor,
        interval=interval,
        seed=seed,
        sources=sources,
        tenants=tenants,
        db=db,
        final_rows=final_rows,
    )
    return question.look(log, Path(checkpoint)).found
