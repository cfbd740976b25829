"""A pessimistic learner: it leaves the incumbent only where a lower bound of the doubly robust gain is above zero."""

from __future__ import annotations

from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.routing_data import RoutingData
from sage.policies.calibration import lower_bound_width
from sage.policies.cell_policy import CellPolicy
from sage.policies.policy import RoutingPolicy
from sage.policies.share_policy import SharePolicy
from sage.rl.category_table import learn_table

CONFIDENCE = 0.95


def learn_doubly_robust(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective = DEFAULT,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> CellPolicy | SharePolicy:
    """Learns a table that takes, in every cell, the model with the highest lower bound of the gain.

    Bounds are one-sided at `confidence`; the incumbent's is zero. Under a limit on the loss of quality the bound is on
    the mean over all decisions instead (`margin_learner`). Raises ValueError unless `confidence` is at least 0.5 and
    below 1.
    """
    return learn_table(
        data,
        static=static,
        objective=objective,
        pessimism=lower_bound_width(confidence),
        name="doubly_robust",
        seed=seed,
    )
