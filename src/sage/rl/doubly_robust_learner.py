"""A pessimistic doubly robust learner: leaves the incumbent only where a lower bound of the gain is above zero."""

from __future__ import annotations

from sage.policy import RoutingPolicy
from sage.rl.calibration import lower_bound_width
from sage.rl.category_table import learn_table
from sage.rl.cell_policy import CellPolicy
from sage.rl.reward import REWARD_V1, RewardWeights
from sage.rl.routing_data import RoutingData

CONFIDENCE = 0.95


def learn_doubly_robust(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    weights: RewardWeights = REWARD_V1,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> CellPolicy:
    """Takes in every cell the model with the highest lower bound, one-sided at `confidence`; the incumbent's is zero."""
    return learn_table(
        data, static=static, weights=weights, pessimism=lower_bound_width(confidence), name="doubly_robust", seed=seed
    )
