"""Rewards of outcome tables, from the parts (quality, cost, latency) that a table has."""

from __future__ import annotations

import numpy as np

from sage.evidence.reward import REWARD_V1, RewardWeights, composite_reward, measured_weights
from sage.outcomes.table import OutcomeTable


def table_weights(table: OutcomeTable) -> RewardWeights:
    """Returns the weights of reward_v1 without the parts that are missing for any task and model that ran."""
    parts = {
        name: np.full(1, np.nan if np.isnan(values[table.ran]).any() else 0.0)
        for name, values in (("cost_usd", table.cost_usd), ("latency_s", table.latency_s))
    }
    return measured_weights(REWARD_V1, **parts)


def table_rewards(table: OutcomeTable) -> np.ndarray:
    """Returns the rewards [tasks, models]; NaN where a model did not run."""
    nothing = np.zeros(table.score.shape)
    return composite_reward(
        table.score, table.cost_usd, table.latency_s, nothing, nothing.astype(bool), table_weights(table)
    )
