"""Decisions without a reported outcome: how many by model, if chance explains them, and how much they could change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_base.evaluation import BanditLog, Interval
from rl_base.evaluation.missing import missing_rate_p_values, too_few_p_values

GONE = 0.001  # a log as incomplete as this by chance is refused: one in a thousand is refused wrongly
UNUSUAL = 0.01


@dataclass(frozen=True, kw_only=True)
class ModelGaps:
    """One model's missing outcomes, and the p-values of its missing rate and of its number of decisions."""

    decisions: int
    missing: int
    expected_decisions: float  # by the propensities
    rate_p_value: float  # of a missing rate so far from the other models', if the model plays no part
    too_few_p_value: float  # of so few decisions, if the log holds all

    @property
    def rate(self) -> float:
        """Returns the share of the model's decisions without an outcome; 0 without decisions."""
        return self.missing / self.decisions if self.decisions else 0.0


@dataclass(frozen=True, kw_only=True)
class Missingness:
    """The missing outcomes of a log by model, and an interval of the gain that holds whatever they were."""

    rows: int
    models: dict[str, ModelGaps]
    worst_case: Interval | None  # None where nothing is missing, or where the report refuses

    @property
    def gone(self) -> str:
        """Returns a text about models with far fewer decisions than their probabilities imply; '' if there are none."""
        limit = GONE / len(self.models)
        few = {name: gaps for name, gaps in self.models.items() if gaps.too_few_p_value < limit}
        return ", ".join(
            f"{name} was chosen in {gaps.decisions:,} rows where its probabilities add up to {gaps.expected_decisions:,.0f}"
            for name, gaps in few.items()
        )

    @property
    def told(self) -> str:
        """Returns a text that lists the models with missing outcomes, the most first."""
        present = sorted(((gaps.missing, name) for name, gaps in self.models.items() if gaps.missing), reverse=True)
        texts = []
        for _, name in present:
            gaps = self.models[name]
            chance = ", not by chance" if gaps.rate_p_value < UNUSUAL / len(self.models) else ""
            texts.append(f"{name} {gaps.missing:,} of {gaps.decisions:,} ({gaps.rate:.1%}{chance})")
        return ", ".join(texts)


def find_gaps(log: BanditLog, models: tuple[str, ...], observed: np.ndarray, worst: Interval | None) -> Missingness:
    """Counts missing outcomes by model and tests if chance explains them; shadows count as decisions of their own.

    `observed` is bool [n]; `worst` is the interval that the result carries along.
    """
    looked = log.tries[0].made  # not those whose outcome nobody asked for
    actions, gone = log.actions[looked], ~observed[looked]
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
