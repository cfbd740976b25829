"""Shadows: second models that were asked beside the answering one, their outcomes, and the chance of asking them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from rl_base.evaluation import BanditLog
from sage.evidence.reward import RewardWeights, composite_reward
from sage.log.records import Decision, Outcome


@dataclass(frozen=True, kw_only=True)
class Shadows:
    """The second models' outcomes, one row per decision, also for decisions without a shadow."""

    action: np.ndarray  # int64 [n]: index into models, or -1
    probability: np.ndarray  # float64 [n, models]: that each is the shadow, whichever model answers
    quality: np.ndarray  # float64 [n]: NaN where nobody saw it
    cost_usd: np.ndarray  # float64 [n]
    latency_s: np.ndarray  # float64 [n]
    retries: np.ndarray  # int64 [n]
    timed_out: np.ndarray  # bool [n]

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def select(self, rows: np.ndarray) -> Shadows:
        return Shadows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def reward(self, weights: RewardWeights) -> np.ndarray:
        """Returns [n]: the shadows' rewards.

        NaN without a shadow, without a report, or where a part that counts is missing.
        """
        return composite_reward(self.quality, self.cost_usd, self.latency_s, self.retries, self.timed_out, weights)

    def beside(self, propensity: np.ndarray, rewards: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the fields of a `BanditLog` that hold the shadows: their actions, `rewards` [n], and probabilities.

        `propensity` [n, models] is the probability that each model answers; that of being the shadow is added to it.
        """
        return {"beside_actions": self.action, "beside_rewards": rewards, "seen": chances_of(propensity, self)}

    def record(self, row: int, models: tuple[str, ...], decision: Decision) -> tuple[dict, Outcome | None]:
        """Returns the shadow of one row, as fields of its decision and as an outcome (None if nothing was reported)."""
        chances = tuple(float(self.probability[row, models.index(name)]) for name in decision.candidates)
        if self.action[row] < 0:
            return {"shadow_probabilities": chances if any(chances) else None}, None
        told = Outcome(
            decision_id=decision.id,
            time=decision.time,
            quality=none_if_nan(self.quality[row]),
            cost_usd=none_if_nan(self.cost_usd[row]),
            latency_s=none_if_nan(self.latency_s[row]),
            retries=int(self.retries[row]),
            timed_out=bool(self.timed_out[row]),
        )
        seen = told.quality is not None or told.timed_out or told.cost_usd is not None
        return {"shadow": models[self.action[row]], "shadow_probabilities": chances}, told if seen else None


def chances_of(propensity: np.ndarray, shadows: Shadows | None) -> np.ndarray:
    """Returns [n, models]: how often the outcome of each model is seen in each row, in expectation."""
    return propensity if shadows is None else propensity + shadows.probability


def shadows_of(decisions: list[Decision], outcomes: list[Outcome], column: dict[str, int]) -> Shadows | None:
    """Returns the shadows of decisions and outcomes as arrays; None if no outcome of a shadow was ever reported."""
    told = [shadow_outcome(d, o) for d, o in zip(decisions, outcomes, strict=True)]
    if not any(outcome is not None for outcome in told):
        return None
    probability = np.zeros((len(decisions), len(column)))
    for row, decision in enumerate(decisions):
        for name, chance in zip(decision.candidates, decision.shadow_probabilities or (), strict=False):
            probability[row, column[name]] = chance
    nothing = Outcome(decision_id="none", time=0.0)
    filled = [outcome or nothing for outcome in told]
    amounts = {
        name: np.array([np.nan if getattr(o, name) is None else getattr(o, name) for o in filled], np.float64)
        for name in ("quality", "cost_usd", "latency_s")
    }
    return Shadows(
        action=np.array([-1 if d.shadow is None else column[d.shadow] for d in decisions]),
        probability=probability,
        retries=np.array([o.retries for o in filled]),
        timed_out=np.array([o.timed_out for o in filled]),
        **amounts,
    )


def shadow_outcome(decision: Decision, outcome: Outcome) -> Outcome | None:
    """Returns the outcome of the decision's shadow; None if there is none, or if another model answered for it."""
    told = outcome.shadow
    if told is None or decision.shadow is None or told.model not in (None, decision.shadow):
        return None
    return told


def unseen(log: BanditLog) -> int:
    """Returns the number of shadows without a reward."""
    return 0 if log.beside_rewards is None else int(np.isnan(log.beside_rewards).sum())


def none_if_nan(value: float) -> float | None:
    """Returns the number, or None for NaN."""
    return None if np.isnan(value) else float(value)
