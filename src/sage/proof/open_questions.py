"""Open questions of a learned table: the models that a log cannot judge yet, and the tries that would decide."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from sage.evidence.incumbent import incumbent_of
from sage.evidence.objective import Objective
from sage.evidence.routing_data import RoutingData
from sage.policies.cell_policy import CellPolicy
from sage.policies.policy import RoutingPolicy
from sage.proof.plan import PlanError, Scheme, make_plan, measure_log

MOST = 3
LEAST_CHANCE = 0.1  # of being better, for a model to be worth more tries
LOOKS = 10  # planned, as `sage lab plan` has them


@dataclass(frozen=True, kw_only=True)
class OpenQuestion:
    """A model that may be better than the static table in some categories, and what it takes to know."""

    model: str
    instead_of: tuple[str, ...]
    cells: tuple[str, ...]  # role and category
    share: float  # of decisions that are in these cells
    chance: float  # of being better there
    gain: float  # reward per decision there, if it is better
    tries: int  # that the log has of it there
    needed: int  # tries there, in the part of a log that is learned from, for a proof with power .8 on the rest

    def to_json(self) -> dict:
        """Returns plain values."""
        return asdict(self) | {"instead_of": list(self.instead_of), "cells": list(self.cells)}

    def __str__(self) -> str:
        names = ", ".join(self.cells[:MOST]) + (f" and {len(self.cells) - MOST} more" if len(self.cells) > MOST else "")
        times = self.needed / max(self.tries, 1)
        return (
            f"explore {self.model} in {names}: {self.needed:,} tries, {times:.1f} times the {self.tries:,} that were learned from, "
            f"would decide whether it replaces {', '.join(self.instead_of)} in {self.share:.0%} of decisions (better with a chance of "
            f"{self.chance:.0%}, then by {self.gain:.3f} per decision)"
        )


def open_questions(
    data: RoutingData,
    policy: CellPolicy,
    *,
    static: RoutingPolicy | None,
    objective: Objective,
    holdout: float,
    most: int = MOST,
) -> list[OpenQuestion]:
    """Returns the models that promise the most where the policy leaves the choice to the static table.

    `data` are the rows that the policy was learned from. Gains are those of its posterior, given that they are above 0,
    and the number of tries is that of a plan in which the model and the static table's alone are explored. Empty if
    nothing is promising, or if the log has too few tasks for a plan.
    """
    cell, usual = policy.cells.index(data.contexts), incumbent_of(data, static).choice
    shape = (len(policy.cells), len(data.models))
    decisions = np.bincount(cell, minlength=shape[0])
    tries = np.bincount(cell * shape[1] + data.action, minlength=math.prod(shape)).reshape(shape)
    left = policy.score_table[: shape[0]].max(axis=1) <= 0
    mean, deviation = policy.mean[: shape[0]], policy.spread * policy.deviation[: shape[0]]
    chance, gain = given_better(mean, deviation)
    promising = left[:, None] & (chance >= LEAST_CHANCE) & np.isfinite(gain) & (deviation > 0)
    promise = np.where(promising, chance, 0.0) * np.where(promising, gain, 0.0) * (decisions / len(data))[:, None]
    try:
        variances = measure_log(data, objective.weights)
    except PlanError:
        return []
    found = []
    for model in np.argsort(-promise.sum(axis=0), kind="stable"):
        inside = np.flatnonzero(promising[:, model])
        if not len(inside) or len(found) == most:
            break
        weight = decisions[inside] / decisions[inside].sum()
        share, size = float(decisions[inside].sum() / len(data)), float(weight @ gain[inside, model])
        scheme = Scheme(exploration=explored(data), models=2.0, reward_lost=0.0, usd_spent=None)
        plan = make_plan(variances, scheme, gain=min(size, 0.99) * share, acting=share, holdout=holdout, looks=LOOKS)
        if plan.log_rows is None:
            continue
        made, needed = int(tries[inside, model].sum()), plan.log_rows * (1 - holdout) * share * scheme.other
        if needed <= made:
            continue  # it will be decided by the tasks of the next log, if not by these
        replaced = np.unique(usual[np.isin(cell, inside)])
        found.append(
            OpenQuestion(
                model=data.models[model],
                instead_of=tuple(data.models[k] for k in replaced if k != model),
                cells=tuple("/".join(filter(None, policy.cells.pairs[k])) for k in inside),
                share=share,
                chance=float(weight @ chance[inside, model]),
                gain=size,
                tries=made,
                needed=math.ceil(needed),
            )
        )
    return found


def given_better(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the chance that a normal gain is above 0, and its mean if it is; NaN where nothing is known."""
    normal = NormalDist()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(np.isfinite(deviation) & (deviation > 0), mean / deviation, np.nan)
        known = np.nan_to_num(ratio)
        chance = np.where(np.isnan(ratio), np.nan, np.vectorize(normal.cdf)(known))
        return chance, mean + deviation * np.vectorize(normal.pdf)(known) / chance


def explored(data: RoutingData) -> float:
    """Returns the mean share of exploration in a log: what its most likely models leave to the others, and themselves."""
    width = data.eligible.sum(axis=1)
    rest = (1 - data.propensity.max(axis=1)) * width / np.maximum(width - 1, 1)
    return float(np.clip(rest.mean(), 0.01, 1.0))
