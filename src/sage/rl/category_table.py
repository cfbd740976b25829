"""The learner of the category table: every model's gain per role and category, shrunk to its mean over categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, predict_rewards, pseudo_rewards
from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.quality_and_cost import version_of
from sage.evidence.routing_data import RoutingData
from sage.policies.calibration import Prediction, cross_fitted_checks, fit_spread, measure_reliability
from sage.policies.cell_policy import CellPolicy
from sage.policies.cells import Cells
from sage.policies.learned_policy import Training, hash_tasks
from sage.policies.policy import Contexts, RoutingPolicy
from sage.policies.share_policy import SharePolicy
from sage.rl.cell_posterior import cell_posterior, gains_over
from sage.rl.dollar_worth import quality_and_cost_values, sweep, with_quality_and_cost, within_limit
from sage.rl.gain_model import QUICK
from sage.rl.margin_learner import learn_within_margin
from sage.rl.training_record import training_of


def learn_table(
    data: RoutingData,
    *,
    static: RoutingPolicy | None = None,
    objective: Objective = DEFAULT,
    pessimism: float = 0.0,
    name: str = "category_table",
    seed: int = 0,
) -> CellPolicy | SharePolicy:
    """Learns the table from a log, by doubly robust rewards of every model; gains are over the incumbent's choices.

    Under a budget the reward is quality less cost, at the worth of a dollar that keeps to it (`dollar_worth`). Under a
    limit on the loss of quality, the table holds shares of decisions (`margin_learner`).
    """
    if objective.max_points_worse is not None:
        return learn_within_margin(data, static=static, objective=objective, name=name, seed=seed)
    version, settings = version_of(data, objective), {}
    data = with_quality_and_cost(data) if objective.constrained else data
    cells = Cells.of(data.contexts)
    cell = cells.index(data.contexts)
    incumbent = incumbent_of(data, static)
    if objective.constrained:
        points = sweep(data, cells, incumbent.choice, pessimism=pessimism, seed=seed)
        chosen = within_limit(points, objective)
        values = quality_and_cost_values(data, cells, seed).worth(chosen.usd_worth)
        settings = {"usd_worth": chosen.usd_worth, "quality": chosen.quality.value, "cost_usd": chosen.cost.value}
    else:
        log = bandit_log(data, cells, objective.weights, shadows=True)
        values = pseudo_rewards(log, predict_rewards(log, seed))
    training = training_of(data, name, version, seed=seed, against=incumbent.name, **settings)
    return fit_cells(
        values,
        cells,
        cell,
        incumbent.choice,
        data.contexts.task_id,
        models=data.models,
        name=name,
        training=training,
        pessimism=pessimism,
    )


def table_from_outcomes(
    contexts: Contexts,
    models: tuple[str, ...],
    rewards: np.ndarray,
    *,
    incumbent: str | None = None,
    pessimism: float = 0.0,
    name: str = "category_table",
    training: Training | None = None,
) -> CellPolicy:
    """Learns the table from the rewards [n, models] of all models on the same tasks (NaN: not run).

    Gains are over `incumbent`. Without one, and in cells where it did not run, they are over the role's best model
    among those that ran on at least half as many tasks as any. Raises ValueError for a wrong shape or an unknown
    incumbent.
    """
    if rewards.shape != (len(contexts.role), len(models)):
        raise ValueError(f"rewards has shape {rewards.shape} for {len(contexts.role)} tasks x {len(models)} models")
    if incumbent is not None and incumbent not in models:
        raise ValueError(f"incumbent={incumbent!r} is not one of the models {', '.join(models)}")
    cells = Cells.of(contexts)
    cell = cells.index(contexts)
    usual = usual_models(rewards, cells, cell, None if incumbent is None else models.index(incumbent))
    training = training or Training(
        name, "", "real", "given", 0, len(rewards), task_hashes=hash_tasks(contexts.task_id)
    )
    return fit_cells(
        rewards,
        cells,
        cell,
        usual[cell],
        contexts.task_id,
        models=models,
        name=name,
        training=training,
        pessimism=pessimism,
    )


def usual_models(rewards: np.ndarray, cells: Cells, cell: np.ndarray, preferred: int | None) -> np.ndarray:
    """Returns int64 [cells]: the model `preferred` where it ran, else the role's best, or at last the cell's best.

    `rewards` is [n, models] with NaN where a model did not run, `cell` int [n].
    """
    chosen = np.zeros(len(cells), np.int64)
    for index in range(len(cells)):
        inside = rewards[cell == index]
        of_role = rewards[cells.role_of_pair[cell] == cells.role_of_pair[index]]
        wanted = [*([] if preferred is None else [preferred]), best_mean(of_role), best_mean(inside)]
        chosen[index] = next((k for k in wanted if not np.isnan(inside[:, k]).all()), wanted[-1])
    return chosen


def best_mean(rewards: np.ndarray) -> int:
    """Returns the model with the best mean reward among those that ran on at least half as many tasks as any.

    `rewards` is [n, models] with NaN where a model did not run.
    """
    ran = (~np.isnan(rewards)).sum(axis=0)
    mean = np.nansum(rewards, axis=0) / np.maximum(ran, 1)
    return int(np.where(2 * ran >= ran.max(), mean, -np.inf).argmax())


def fit_cells(
    values: np.ndarray,
    cells: Cells,
    cell: np.ndarray,
    incumbent: np.ndarray,
    tasks: np.ndarray,
    *,
    models: tuple[str, ...],
    name: str,
    training: Training,
    pessimism: float,
) -> CellPolicy:
    """Fits the policy to (pseudo-)rewards [n, models], and checks its confidence on held-out tasks.

    `cell` (int [n]) are rows of `cells`, `incumbent` (int [n]) the models of today, `tasks` [n] the task of each row.
    """
    tasks = np.unique(tasks, return_inverse=True)[1]  # numbers sort faster than names
    policy = CellPolicy(
        name=name,
        models=models,
        training=training,
        cells=cells,
        pessimism=pessimism,
        **cell_posterior(values, cells, cell, incumbent, tasks)._asdict(),
    )

    def predict(rows: np.ndarray) -> Prediction:
        part = (values[rows], cells, cell[rows], incumbent[rows], tasks[rows])
        gains = cell_posterior(*part, sweeps=QUICK)
        choice = replace(policy, **gains._asdict()).score_table[: len(cells)].argmax(axis=1)
        mean, deviation = (part[np.arange(len(cells)), choice] for part in (gains.mean, gains.deviation))
        return Prediction(choice, np.where(deviation == 0, np.nan, mean), deviation)  # 0: the incumbent itself

    checks = cross_fitted_checks(predict, gains_over(values, incumbent), cell, len(cells), tasks)
    spread = fit_spread(checks)
    return replace(policy, spread=spread, training=replace(training, calibration=measure_reliability(checks, spread)))
