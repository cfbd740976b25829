"""Synthetic decisions with synthetic outcomes, for trying sage without a log; they are always labelled synthetic."""

from __future__ import annotations

from sage.evidence.routing_data import RoutingData
from sage.outcomes.synthetic import MODELS, synthetic_table
from sage.policies.policy import RoutingPolicy
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import replay

ROWS_PER_TASK = 2


def collect_synthetic(
    num_rows: int,
    *,
    models: tuple[str, ...] = MODELS,
    static: RoutingPolicy | None = None,
    epsilon: float = 0.1,
    seed: int = 0,
) -> RoutingData:
    """Returns decisions of a static table with exploration on synthetic tasks of all eight roles.

    `models` go from cheap to dear; without `static`, the table takes the middle one. Raises ValueError for fewer than
    one row.
    """
    if num_rows < 1:
        raise ValueError(f"rows={num_rows} must be 1 or more")
    table = synthetic_table(max(num_rows // ROWS_PER_TASK, 1), models=models, seed=seed)
    middle = models[len(models) // 2]
    base = static or PreferenceOrder((middle, *(model for model in models if model != middle)))
    return replay(table, Exploring(base, epsilon), num_rows, seed=seed)
