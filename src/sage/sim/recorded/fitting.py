"""Models of the simulator from a table of recorded outcomes: `sage sim fit-models`, as code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage.outcomes.table import OutcomeTable
from sage.sim.environment.rules import COST_ASK
from sage.sim.recorded.checks import folds, posterior_checks
from sage.sim.recorded.costs import cost_quantiles
from sage.sim.recorded.item_response import Curves, fit_curves
from sage.sim.recorded.model_file import FACTS, LEVELS, Fitted, ModelFile, Row
from sage.sim.recorded.tiers import ASKED, ROLES, TierError, choose_tiers, named_tiers
from sage.splitting import in_first_part

COST_OF_LARGE = COST_ASK[2 * ASKED.index("large")]
HELD_OUT_BY = ("task", "category")
TRAIN_FRACTION = 0.6
FEWEST_TASKS = 20
SHARING = "Parameters and rows are derived from this data: its licence decides whether you may share this file."


class FitError(ValueError):
    """A table or a setting from which no models can be fitted; the message says why."""


def fit_models(
    table: OutcomeTable,
    level: str = "irt",
    *,
    tiers: str | None = None,
    units_per_usd: float | None = None,
    held_out_by: str = "task",
    seed: int = 0,
) -> ModelFile:
    """Returns models of the level irt (fitted curves) or replay (recorded rows); raises FitError or TierError if the
    table or a setting does not fit.

    `held_out_by` is task or category: those rows are in no fit, and are replayed on tasks that no policy learns from.
    Without `units_per_usd`, costs are scaled so that the large model's mean is COST_OF_LARGE.
    """
    for name, value, known in (("level", level, LEVELS), ("held_out_by", held_out_by, HELD_OUT_BY)):
        if value not in known:
            raise FitError(f"{name}={value!r} must be one of {', '.join(known)}")
    if units_per_usd is not None and not 0 < units_per_usd < np.inf:
        raise FitError(f"units_per_usd={units_per_usd} must be a number above 0")
    chosen = named_tiers(tiers, table) if tiers else choose_tiers(table)
    source = source_of(table)
    table = table.select(complete_rows(table, chosen))
    often = table.ran.mean(axis=0) > 0.5  # those that ran seldom say little about difficulties
    table = table.with_models(tuple(name for name, kept in zip(table.models, often, strict=True) if kept))
    keys, of = (table.task_id, "tasks") if held_out_by == "task" else (table.category, "categories")
    learned = in_first_part(keys, TRAIN_FRACTION, seed, of=of)
    columns = [table.models.index(name) for name in chosen]
    curves = fit_curves(table.score[learned])
    large = table.cost_usd[learned, columns[ASKED.index("large")]].mean()
    part = (np.flatnonzero(learned), np.flatnonzero(~learned))
    return ModelFile(
        level=level,
        source=source,
        tiers=dict(zip(ROLES, chosen, strict=True)),
        units_per_usd=COST_OF_LARGE / float(large) if units_per_usd is None else units_per_usd,
        answers=fitted_answers(table.select(learned), curves, columns)
        if level == "irt"
        else recorded_rows(table, curves, columns, ~learned),
        checks={
            "held_out_tasks": posterior_checks(table, chosen, folds(len(table), seed=seed)),
            f"held_out_part_by_{held_out_by}": posterior_checks(table, chosen, [part]),
        },
    )


def complete_rows(table: OutcomeTable, tiers: Sequence[str]) -> np.ndarray:
    """Returns the indices of tasks on which every tier has a score and every tier but the escalated one a cost; raises
    FitError if there are fewer than FEWEST_TASKS, TierError if an attempt cost nothing."""
    columns = [table.models.index(name) for name in tiers]
    costs = table.cost_usd[:, columns[: len(ASKED)]]
    complete = np.flatnonzero(np.isfinite(np.concatenate([table.score[:, columns], costs], axis=1)).all(axis=1))
    if len(complete) < FEWEST_TASKS:
        raise FitError(
            f"{table.name} has {len(complete)} tasks with scores and costs of {', '.join(tiers)}: {FEWEST_TASKS} are needed"
        )
    if (costs[complete] <= 0).any():
        raise TierError(
            f"{table.name}: an attempt of a tier cost nothing: choose models whose costs were measured with --tiers"
        )
    return complete


def source_of(table: OutcomeTable) -> dict[str, str]:
    known = table.description() | {"sha256": table.sha256, "licence_note": SHARING}
    return {name: str(known[name]) for name in FACTS}


def fitted_answers(table: OutcomeTable, curves: Curves, columns: Sequence[int]) -> Fitted:
    failed, solved = (
        tuple(
            tuple(cost_quantiles(table.score[:, k], table.cost_usd[:, k], solved=outcome).tolist())
            for k in columns[: len(ASKED)]
        )
        for outcome in (False, True)
    )
    return Fitted(
        tuple(curves.ability[columns].tolist()),
        tuple(curves.discrimination[columns].tolist()),
        tuple(curves.difficulty.tolist()),
        tuple(curves.weight.tolist()),
        failed,
        solved,
    )


def recorded_rows(table: OutcomeTable, curves: Curves, columns: Sequence[int], held_out: np.ndarray) -> tuple[Row, ...]:
    """Returns the recorded rows in the order of difficulty, which is estimated from all models of the table."""
    place = curves.posterior(table.score)
    difficulty, again = place @ curves.difficulty, place @ curves.probability()[:, columns]
    return tuple(
        Row(
            float(difficulty[i]),
            bool(held_out[i]),
            tuple(table.score[i, columns].tolist()),
            tuple(again[i].tolist()),
            tuple(table.cost_usd[i, columns[: len(ASKED)]].tolist()),
        )
        for i in np.argsort(difficulty, kind="stable")
    )
