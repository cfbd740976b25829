"""The learner for "at most so many points worse, as cheap as possible": shares of decisions for cheaper models.

A margin is on the mean over all decisions, so that it can be spent where it saves most, and only as far as the log shows
what it buys. With few tasks a whole cell is rarely shown to be within a margin, but a part of its decisions is: a
tenth of them loses a tenth, with a tenth of the error.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rl_base.evaluation.reward_model import assign_folds
from sage.evidence.incumbent import Incumbent, incumbent_of
from sage.evidence.logged_rewards import FOLDS
from sage.evidence.objective import Objective
from sage.evidence.quality_and_cost import version_of
from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import chances_of
from sage.policies.cells import Cells
from sage.policies.policy import RoutingPolicy
from sage.policies.share_policy import SharePolicy
from sage.rl.allowance import Question, spend_allowance
from sage.rl.cell_posterior import gains_over
from sage.rl.dollar_worth import (
    ChoiceEstimator,
    SweptPolicy,
    quality_and_cost_values,
    with_quality_and_cost,
)
from sage.rl.joint_gains import JointGains, joint_gains
from sage.rl.training_record import training_of

PROOF_TAIL = 0.975  # of the gate's one-sided bound at one look
POWER = 0.8  # chance that the gate promotes
PROOF_NOISE = 1.0  # rows to learn from over rows of the proof, which also has what is logged until then
LEAST_SHARE = 0.01  # of a cell's decisions
MOST_SURE = 0.9995
ROUNDING = 1e-9  # of the mean cost: models whose costs differ by less cost the same
JUDGED = 0.95  # one-sided, of the bound on tasks left out
DEVIATIONS = 1.645  # of a gain: it is above this upper bound with a chance of 5 %


class Shares(NamedTuple):
    """The shares that models get of the decisions in every cell."""

    share: np.ndarray  # [cells, models] without the usual model's
    usual: np.ndarray  # int64 [cells]
    worth: float  # quality that a dollar counts as where the last of the margin is spent
    chance: float  # that the margin holds

    def of_rows(self, cell: np.ndarray, incumbent: np.ndarray, eligible: np.ndarray) -> np.ndarray:
        """Returns probabilities [n, models]: the shares in rows where the usual model decides, else the incumbent.

        `cell` and `incumbent` are int [n], `eligible` is bool [n, models].
        """
        rows = np.arange(len(cell))
        given = np.where(eligible & (incumbent == self.usual[cell])[:, None], self.share[cell], 0.0)
        given[rows, incumbent] += np.maximum(1 - given.sum(axis=1), 0.0)
        return given


class Moves(NamedTuple):
    """Gains of giving the decisions of cells to other models; the entries are pairs of a cell and a model."""

    usual: np.ndarray  # int64 [cells] the incumbent's usual models
    weight: np.ndarray  # [entries] share of all decisions that the model could get in the cell
    quality: JointGains
    cost: JointGains

    def question(self, gain: np.ndarray, errors: tuple[tuple[float, np.ndarray], ...]) -> Question:
        """Returns the choice of shares, if qualities change by `gain` [entries] per decision."""
        return Question(-self.weight * self.cost.gain, self.weight * gain, errors, self.quality.cell)


def learn_within_margin(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective,
    name: str = "shares",
    seed: int = 0,
) -> SharePolicy:
    """Learns the cheapest shares whose loss of quality is within the margin, so that the gate is likely to say so.

    They are checked on tasks left out, and made smaller where the loss there is not within the margin.
    """
    version = version_of(data, objective)
    data = with_quality_and_cost(data)
    cells, incumbent = Cells.of(data.contexts), incumbent_of(data, static)
    found = fit_shares(data, cells, incumbent, objective.margin, seed)
    judged = judge_shares(data, cells, incumbent, objective.margin, seed)
    lowest = judged.quality.value - NormalDist().inv_cdf(JUDGED) * judged.quality.standard_error
    smaller = min(1.0, objective.margin / -lowest) if lowest < 0 else 1.0
    settings = {"usd_worth": found.worth, "quality": judged.quality.value, "cost_usd": judged.cost.value}
    return SharePolicy(
        name=name,
        models=data.models,
        training=training_of(data, name, version, seed=seed, against=incumbent.name, **settings),
        cells=cells,
        share=found.share * smaller,
        usual=found.usual,
        chance=found.chance,
    )


def fit_shares(data: RoutingData, cells: Cells, incumbent: Incumbent, margin: float, seed: int = 0) -> Shares:
    """Returns the shares that save most, so that the loss of quality is likely to be shown to be within the margin.

    `data` are rows with quality and cost. Cells in which the incumbent takes different models although its usual one is
    eligible keep their incumbent, because no share could stand for it.
    """
    found = measure_moves(data, cells, incumbent, seed)
    share, empty = np.zeros((len(cells), len(data.models))), Shares(np.zeros(0), found.usual, 0.0, MOST_SURE)
    quality, weight = found.quality, found.weight
    if not len(weight):
        return empty._replace(share=share)
    both = weight * weight[:, None]
    noise, error = PROOF_NOISE * both * quality.noise, both * quality.error
    normal = NormalDist()
    widths = normal.inv_cdf(PROOF_TAIL), normal.inv_cdf(POWER)
    question = found.question(quality.gain, tuple(zip(widths, (noise, noise + error), strict=True)))
    spent = spend_allowance(question, margin)
    kept = spent.share >= LEAST_SHARE
    if kept.any() and not kept.all():
        again = spend_allowance(question.select(kept), margin)
        spent = spent._replace(share=np.zeros(len(kept)))
        spent.share[kept] = np.where(again.share >= LEAST_SHARE, again.share, 0.0)
    share[quality.cell, quality.model] = np.where(kept, spent.share, 0.0)
    deviation = float(np.sqrt(spent.share @ error @ spent.share))
    left = margin + float(question.gain @ spent.share)
    chance = normal.cdf(left / deviation) if deviation > 0 else MOST_SURE
    return empty._replace(share=share, worth=spent.worth, chance=min(chance, MOST_SURE))


def measure_moves(data: RoutingData, cells: Cells, incumbent: Incumbent, seed: int = 0) -> Moves:
    """Returns what is known of moving decisions from the usual model of a cell to another."""
    cell, choice = cells.index(data.contexts), incumbent.choice
    values = quality_and_cost_values(data, cells, seed)
    usual, steady = usual_models(choice, cell, data.eligible, len(cells))
    moves = steady[cell] & (choice == usual[cell])
    known = moves[:, None] & (np.arange(len(data.models)) != usual[cell][:, None])
    quality, cost = (
        joint_gains(np.where(known, gains_over(part, choice), np.nan), cell, len(cells), data.contexts.task_id)
        for part in values
    )
    pair, size = cell[:, None] * len(data.models) + np.arange(len(data.models)), len(cells) * len(data.models)
    weight = np.bincount(pair[known & data.eligible], minlength=size) / len(cell)
    same = np.abs(cost.gain) <= ROUNDING * float(data.cost_usd.mean())
    cost = cost._replace(gain=np.where(same, 0.0, cost.gain))
    return Moves(usual, weight[quality.cell * len(data.models) + quality.model], quality, cost)


def highest_worths(data: RoutingData, cells: Cells, incumbent: Incumbent, margin: float, seed: int = 0) -> np.ndarray:
    """Returns upper bounds [cells, models] of what a model is worth, in quality; infinite where nothing is known.

    A model's worth is its gain in quality, at its upper bound, plus its saving. A saved dollar is worth the quality that
    it would cost if the `margin` were spent on models with such gains.
    `data` are rows with quality and cost.
    """
    found, worth = measure_moves(data, cells, incumbent, seed), np.full((len(cells), len(data.models)), np.inf)
    if len(found.weight):
        highest = found.quality.gain + DEVIATIONS * np.sqrt(np.diag(found.quality.error))
        dollar = spend_allowance(found.question(highest, ()), margin).worth
        worth[found.quality.cell, found.quality.model] = highest - dollar * found.cost.gain
    return worth


def usual_models(
    incumbent: np.ndarray, cell: np.ndarray, eligible: np.ndarray, num_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the incumbent's most frequent model of every cell, and whether it is taken wherever it is eligible.

    `incumbent` and `cell` are int [n], `eligible` is bool [n, models].
    """
    counts = np.zeros((num_cells, eligible.shape[1]), np.int64)
    np.add.at(counts, (cell, incumbent), 1)
    usual = counts.argmax(axis=1)
    other = (incumbent != usual[cell]) & eligible[np.arange(len(cell)), usual[cell]]
    return usual, np.bincount(cell, other, num_cells) == 0


def judge_shares(data: RoutingData, cells: Cells, incumbent: Incumbent, margin: float, seed: int = 0) -> SweptPolicy:
    """Returns the quality and cost of shares that were each learned without the tasks that they are judged on."""
    estimator = ChoiceEstimator(data, cells, incumbent.choice, seed)
    return estimator.estimate(*cross_fitted_shares(data, cells, incumbent, margin, seed))


def cross_fitted_shares(
    data: RoutingData, cells: Cells, incumbent: Incumbent, margin: float, seed: int = 0
) -> tuple[float, np.ndarray]:
    """Returns the mean worth of a dollar, and probabilities [n, models] learned on the other folds of tasks."""
    cell, task = cells.index(data.contexts), np.unique(data.contexts.task_id, return_inverse=True)[1]
    folds = min(FOLDS, int(task.max()) + 1)
    fold_of_row = assign_folds(task, folds, seed)
    possible = chances_of(data.propensity, data.shadows) > 0
    found, worths = np.zeros(possible.shape), []
    for fold in range(folds):
        here = fold_of_row == fold
        others = incumbent._replace(probabilities=incumbent.probabilities[~here])
        shares = fit_shares(data.select(~here), cells, others, margin, seed)
        found[here] = shares.of_rows(cell[here], incumbent.choice[here], possible[here])
        worths.append(shares.worth)
    return float(np.mean(worths)), found
