"""The search for models worth exploring by role and category: the incumbent's, and those not shown to be worse."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, predict_rewards, pseudo_rewards
from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.routing_data import RoutingData
from sage.policies.cells import Cells
from sage.policies.gains import group_gains, shrink
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.plausible import PlausibleError, PlausibleModels
from sage.policies.policy import RoutingPolicy
from sage.policies.serving import GuardRules, serving_distribution
from sage.rl.cell_posterior import counts_of, gains_over, is_only_incumbent
from sage.rl.dollar_worth import with_quality_and_cost
from sage.rl.margin_learner import DEVIATIONS, highest_worths

MOST = 3


def find_plausible(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective = DEFAULT,
    most: int = MOST,
    seed: int = 0,
) -> PlausibleModels:
    """Returns, by role and category, the incumbent's models and the best others of a log, `most` in all.

    Under a limit on the loss of quality these are the models that may save most for what they may lose. Raises
    PlausibleError if `most` is below 2.
    """
    if most < 2:
        raise PlausibleError(
            f"most={most} must be 2 or more: with the incumbent's model alone there is nothing to explore"
        )
    by_cost = objective.max_points_worse is not None
    known = with_quality_and_cost(data) if by_cost else data.select(data.observed)
    cells, incumbent = Cells.of(known.contexts), incumbent_of(known, static)
    cell, tasks = cells.index(known.contexts), known.contexts.task_id
    if by_cost:
        usual = counts_of(incumbent.choice, cell, len(cells), len(known.models)) > 0
        kept = highest_first(highest_worths(known, cells, incumbent, objective.margin, seed), usual, most)
    else:
        log = bandit_log(known, cells, objective.weights, shadows=True)
        values = pseudo_rewards(log, predict_rewards(log, seed))
        kept = plausible_mask(values, cell, len(cells), incumbent.choice, tasks, most)
    return plausible_of_mask(kept, cells, data)


def find_trial(
    data: RoutingData, policy: LearnedPolicy, *, floor: float, static: RoutingPolicy | None = None
) -> PlausibleModels:
    """Returns, by role and category, the models of the incumbent and of the policy as it would serve.

    Exploration then goes only where the two differ, which is all that their comparison depends on. Raises
    PlausibleError if they never differ above the floor.
    """
    cells = Cells.of(data.contexts)
    cell, incumbent = cells.index(data.contexts), incumbent_of(data, static)
    guard = GuardRules(floor, fallback=incumbent)
    served = serving_distribution(policy, guard, data.contexts, data.models, data.eligible).probabilities
    if not incumbent.differs(served).any():
        raise PlausibleError(
            f"{policy.name} never decides differently from the incumbent above the floor of {floor:g}: there is nothing to try"
        )
    chosen = np.zeros((len(cells), len(data.models)), bool)
    np.logical_or.at(chosen, cell, (served > 0) | (incumbent.probabilities > 0))
    return replace(plausible_of_mask(chosen, cells, data), elsewhere=())


def plausible_of_mask(kept: np.ndarray, cells: Cells, data: RoutingData) -> PlausibleModels:
    """Returns the models that are True in `kept` (bool [cells, models]), with the log's hash and today's date."""
    names = np.array(data.models)
    return PlausibleModels(
        cells={pair: tuple(names[kept[k]].tolist()) for k, pair in enumerate(cells.pairs)},
        data_sha256=data.sha256,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def plausible_mask(
    values: np.ndarray, cell: np.ndarray, num_cells: int, incumbent: np.ndarray, tasks: np.ndarray, most: int
) -> np.ndarray:
    """Returns bool [cells, models]: the plausible models by (pseudo-)rewards [n, models] (NaN: could not be chosen).

    The incumbent's models stay. Others follow while the upper bound of their gain is at least 0, the highest bounds
    first, up to `most` models; a model that was never tried has no bound, and comes first.
    """
    usual = counts_of(incumbent, cell, num_cells, values.shape[1]) > 0
    gain = gains_over(values, incumbent)
    gain[is_only_incumbent(incumbent, cell, num_cells, values.shape[1])[cell]] = (
        np.nan
    )  # 0, and no measurement of how gains vary
    found = shrink(group_gains(gain, cell, num_cells, tasks))
    upper = np.nan_to_num(found.mean + DEVIATIONS * found.deviation, nan=np.inf, posinf=np.inf)
    return highest_first(upper, usual, most)


def highest_first(upper: np.ndarray, usual: np.ndarray, most: int) -> np.ndarray:
    """Returns bool [cells, models]: the usual models, then those with the highest bounds of at least 0, `most` in all."""
    rank = np.argsort(np.argsort(np.where(usual, -np.inf, -upper), axis=1, kind="stable"), axis=1)
    return usual | ((rank < most) & (upper >= 0))
