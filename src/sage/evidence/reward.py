"""The reward of an outcome: quality less penalties for cost, latency, retries and time-outs, between known bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


class RewardError(ValueError):
    """Outcomes or weights that give no reward; the message names the part, the rows and the fix."""


@dataclass(frozen=True)
class RewardWeights:
    """The weight of each part: how much of one point of quality it takes away at most, which it does at its scale.

    Raises RewardError for a negative number or a scale of 0.
    """

    version: str = "reward_v1"
    quality: float = 1.0
    cost: float = 0.2
    latency: float = 0.05
    retries: float = 0.05
    timed_out: float = 0.2
    cost_scale_usd: float = 1.0
    latency_scale_s: float = 120.0
    retries_scale: float = 3.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "version":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or value < 0:
                raise RewardError(f"{name}={value!r} must be a finite number that is not negative")
            if name.endswith(("_usd", "_s", "retries_scale")) and value == 0:
                raise RewardError(f"{name} must be above 0: to leave the part out, set its weight to 0")

    @property
    def bounds(self) -> tuple[float, float]:
        """Returns the lowest and the highest reward that any outcome can have."""
        return -(self.cost + self.latency + self.retries + self.timed_out), self.quality


REWARD_V1 = RewardWeights()


def composite_reward(
    quality: np.ndarray,
    cost_usd: np.ndarray,
    latency_s: np.ndarray,
    retries: np.ndarray,
    timed_out: np.ndarray,
    weights: RewardWeights = REWARD_V1,
) -> np.ndarray:
    """Returns the rewards of outcomes, elementwise; NaN where a part with a weight above 0 was not measured.

    A time-out has quality 0 and a penalty of its own; its cost or latency counts as the worst if it was not measured.
    """
    quality = np.where(timed_out, 0.0, quality)
    taken = [
        (weights.cost, cost_usd, weights.cost_scale_usd),
        (weights.latency, latency_s, weights.latency_scale_s),
        (weights.retries, retries, weights.retries_scale),
        (weights.timed_out, timed_out, 1.0),
    ]
    reward = weights.quality * quality
    for weight, amount, scale in taken:
        if weight > 0:
            share = np.minimum(np.asarray(amount, np.float64) / scale, 1.0)
            reward = reward - weight * np.where(timed_out & np.isnan(share), 1.0, share)
    return reward


def measured_weights(weights: RewardWeights, cost_usd: np.ndarray, latency_s: np.ndarray) -> RewardWeights:
    """Returns the weights without the parts (cost, latency) that no row has.

    Raises RewardError if only some rows have a part, because leaving it out for the others would favour those who do
    not report it.
    """
    missing = {}
    for name, amount in (("cost", cost_usd), ("latency", latency_s)):
        unknown = np.isnan(amount)
        if getattr(weights, name) > 0 and unknown.any():
            if not unknown.all():
                raise RewardError(
                    f"{name} is missing in {int(unknown.sum())} of {len(unknown)} rows (first: row {int(unknown.argmax()) + 1}): "
                    f"export with --complete, which counts such outcomes as missing, or set the weight of {name} to 0"
                )
            missing[name] = 0.0
    if not missing:
        return weights
    return replace(weights, **missing, version=f"{weights.version}-without-{'-'.join(missing)}")
