"""The choice of the recorded models that are the simulator's small, medium and large one, and the one that a task is
escalated to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sage.outcomes.table import OutcomeTable
from sage.sim.environment.rules import TIERS

ASKED = TIERS
ROLES = (*ASKED, "escalated")


class TierError(ValueError):
    """Models that cannot be tiers; the message names the fix."""


class ModelMeans(NamedTuple):
    """Mean cost and mean score of a model, with the model's column in the outcome table."""

    cost: float
    score: float
    column: int


def choose_tiers(table: OutcomeTable) -> tuple[str, str, str, str]:
    """Returns the small, medium, large and escalated model, by mean cost and score among models that no other beats in
    both; raises TierError if there are fewer than three.

    The cheapest is small. The best is for escalation and the next best is large, or, if only three are unbeaten, the
    best is large and the best of the others is for escalation. Medium is the one between small and large whose cost is
    nearest to their geometric mean.
    """
    known = ~np.isnan(table.score) & ~np.isnan(table.cost_usd)
    places = [
        ModelMeans(float(table.cost_usd[rows, k].mean()), float(table.score[rows, k].mean()), k)
        for k, rows in enumerate(known.T)
        if rows.any()
    ]
    front = [p for p in places if not any(q.cost <= p.cost and q.score >= p.score and q[:2] != p[:2] for q in places)]
    front.sort()
    if len(front) < len(ASKED):
        fix = "name them with --tiers small=A,medium=B,large=C,escalated=D" if places else "import a table with costs"
        raise TierError(
            f"{table.name} has {len(front)} models with costs that no other beats in cost and score; three are needed: {fix}"
        )
    if front[0].cost <= 0:
        raise TierError(
            f"{table.name}: {table.models[front[0].column]} cost nothing: choose models whose costs were measured with --tiers"
        )
    others = [place for place in places if place not in front]
    last = front.pop() if len(front) > len(ASKED) else max(others or front[-1:], key=lambda place: place.score)
    small, *between, large = front
    middle = np.sqrt(small.cost * large.cost)
    medium = min(between, key=lambda place: abs(np.log(place.cost / middle)))
    small, medium, large, last = (table.models[place.column] for place in (small, medium, large, last))
    return small, medium, large, last


def named_tiers(text: str, table: OutcomeTable) -> tuple[str, str, str, str]:
    """Returns the models that a text `small=A,medium=B,large=C,escalated=D` names; raises TierError if it lacks a tier
    or names an unknown model."""
    given = {role: name for role, _, name in (part.partition("=") for part in text.split(","))}
    if tuple(sorted(given)) != tuple(sorted(ROLES)) or len(text.split(",")) != len(ROLES):
        raise TierError(f"--tiers {text!r} must name each once: small=A,medium=B,large=C,escalated=D")
    unknown = [name for name in given.values() if name not in table.models]
    if unknown:
        raise TierError(f"--tiers: {table.name} has no model {unknown[0]!r}: it has {', '.join(table.models)}")
    if len(set(given.values())) < 2:
        raise TierError(f"--tiers {text!r} names one model only: name two or more")
    small, medium, large, last = (given[role] for role in ROLES)
    return small, medium, large, last
