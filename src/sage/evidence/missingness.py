"""Decisions whose outcome nobody reported: how many of which model, whether that looks like chance, and what it could change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_training.evaluation import BanditLog, Interval
from rl_training.evaluation.missing import missing_rate_p_values, too_few_p_values

GONE = 0.001  # a log as incomplete as this by chance is refused: one in a thousand is refused wrongly
UNUSUAL = 0.01


@dataclass(frozen=True, kw_only=True)
class ModelGaps:
    """Of one model."""

    decisions: int
    missing: int
    expected_decisions: float  # by the propensities
    rate_p_value: float  # of a missing rate so far from the other models', if the model plays no part
    too_few_p_value: float  # of so few decisions, if the log holds all

    @property
    def rate(self) -> float:
        return self.missing / self.decisions if self.decisions else 0.0


@dataclass(frozen=True, kw_only=True)
class Missingness:
    """What is not in a log, by model, and the interval of the gain that holds whatever it was."""

    rows: int
    models: dict[str, ModelGaps]
    worst_case: Interval | None  # None where nothing is missing, or where the report refuses

    @property
    def gone(self) -> str:
        """Which models have fewer decisions than their probabilities say; empty if the log looks whole."""
        limit = GONE / len(self.models)
        few = {name: gaps for name, gaps in self.models.items() if gaps.too_few_p_value < limit}
        return ", ".join(
            f"{name} was chosen in {gaps.decisions:,} rows where its probabilities add up to {gaps.expected_decisions:,.0f}"
            for name, gaps in few.items()
        )

    @property
    def told(self) -> str:
        """The models with missing outcomes, the most first."""
        present = sorted(((gaps.missing, name) for name, gaps in self.models.items() if gaps.missing), reverse=True)
        texts = []
        for _, name in present:
            gaps = self.models[name]
            chance = ", not by chance" if gaps.rate_p_value < UNUSUAL / len(self.models) else ""
            texts.append(f"{name} {gaps.missing:,} of {gaps.decisions:,} ({gaps.rate:.1%}{chance})")
        return ", ".join(texts)


def find_gaps(log: BanditLog, models: tuple[str, ...], observed: np.ndarray, worst: Interval | None) -> Missingness:
    """Shadows are decisions of their own here: a second model whose outcome nobody reported is a gap like any other."""
    actions, gone = log.actions, ~observed
    if log.beside_actions is not None and log.beside_rewards is not None:
        made = log.beside_actions >= 0
        actions = np.concatenate([actions, log.beside_actions[made]])
        gone = np.concatenate([gone, np.isnan(log.beside_rewards[made])])
    count = np.bincount(actions, minlength=len(models))
    missing = np.bincount(actions, gone, len(models))
    expected, too_few = log.chances.sum(axis=0), too_few_p_values(log)
    rate = missing_rate_p_values(actions, gone, len(models))
    return Missingness(
        rows=int(gone.sum()),
        models={
            model: ModelGaps(
                decisions=int(count[k]),
                missing=int(missing[k]),
                expected_decisions=float(expected[k]),
                rate_p_value=float(rate[k]),
                too_few_p_value=float(too_few[k]),
            )
            for k, model in enumerate(models)
        },
        worst_case=worst,
    )
