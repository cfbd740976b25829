"""Ablations: one setting of the method is changed at a time, and held-out tasks show the difference.

All outcomes of the held-out tasks are known, so that differences are measured and not estimated from a log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cascade_replay import replay_cascade

from sage.benchmarks import runner
from sage.benchmarks.baselines import Task, static
from sage.benchmarks.cascades import cascade_row, choose_pool, expected_of
from sage.benchmarks.run_pack import SUITE, PackKind
from sage.benchmarks.suite import read_suite
from sage.evidence.reward import RewardWeights, composite_reward
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts, select_rows
from sage.policies.serving import GuardRules, serving_distribution
from sage.rl.cascades.cascade_learning import learn_fitted_q
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.find_plausible import find_plausible
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import replay
from sage.rl.train_text import learn_text

KIND = "ablations"  # of the results
LOGGED = 20_000  # decisions, or cascades, that are learned from
EPISODES, EXPLORED = 10_000, 0.3  # of a ladder that a cascade is learned from, and its share of exploration
NORMAL_95 = 1.959964
WEIGHTS = RewardWeights(version="quality_and_cost", latency=0.0, retries=0.0, timed_out=0.0)
PRICE = WEIGHTS.cost / WEIGHTS.cost_scale_usd  # quality points per dollar


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The log that is learned from, the learner, and the way it serves; the defaults are sage's without a verifier."""

    features: str = "category"
    learner: str = "train-dr"
    exploration: float = 0.1
    plausible: bool = False  # explores only what an earlier log does not show to be worse
    floor: float = GuardLimits().confidence_floor
    cascade: str = "none"
    verifier: SimulatedVerifier = SimulatedVerifier()


LEVELS: dict[str, dict[str, dict]] = {
    "features": {
        "role": {"features": "role"},
        "role and category": {},
        "also the text, by train-text": {"learner": "train-text"},
    },
    "learner": {"train-table": {"learner": "train-table"}, "train-dr": {}},
    "exploration": {
        ".02": {"exploration": 0.02},
        ".1": {},
        ".1 among 3 plausible models": {"plausible": True},
        ".3": {"exploration": 0.3},
        "1": {"exploration": 1.0},
    },
    "calibration of train-table": {
        "acts at any confidence": {"learner": "train-table", "floor": 0.0},
        "acts from .9 on": {"learner": "train-table"},
        "acts from .99 on": {"learner": "train-table", "floor": 0.99},
    },
    "cascade": {
        "none": {},
        "a ladder until the verifier accepts": {"cascade": "ladder"},
        "learned from a log of the ladder": {"cascade": "learned"},
        "optimal for known rates": {"cascade": "known rates"},
    },
    "verifier of the learned cascade": {
        verifier.name.removeprefix("simulated "): {"cascade": "learned", "verifier": verifier}
        for verifier in (
            SimulatedVerifier(1.0, 0.0),
            SimulatedVerifier(0.95, 0.1),
            SimulatedVerifier(0.95, 0.1, 0.5),
            SimulatedVerifier(0.8, 0.3),
            SimulatedVerifier(0.5, 0.5),
        )
    },
}
LEARNERS = {"train-table": learn_table, "train-dr": learn_doubly_robust, "train-text": learn_text}


def run_suite(path: Path | None, table_path: str | None = None) -> dict:
    """Returns the ablations on a suite, ready for JSON; the same file gives the same numbers.

    None as `path` is the bundled suite; `table_path` tells where its table is by now.
    """
    head, tasks = runner.open_suite(path, KIND, table_path)
    return head | {KIND: run_ablations(tasks)}


def run_again(folder: Path, manifest: dict) -> tuple[dict, list[int], str]:
    """Returns the results of a run pack computed again, their seeds, and the hash of the table as it is now."""
    results = run_suite(folder / SUITE, manifest["data"]["table"])
    return results, list(read_suite(folder / SUITE)[0].seeds), results["table"]["sha256"]


def headline(results: dict) -> dict:
    """Returns the difference from the static table by factor and level."""
    return {f"{row['factor']}: {row['level']}": row["difference"] for row in results[KIND]}


class SetupResult(NamedTuple):
    """Expected quality and cost of every held-out task under one setup."""

    quality: np.ndarray
    cost_usd: np.ndarray

    def reward(self) -> np.ndarray:
        nothing = np.zeros(len(self.quality))
        return composite_reward(self.quality, np.nan_to_num(self.cost_usd), nothing, nothing, nothing > 0, WEIGHTS)


def run_ablations(tasks: list[Task]) -> list[dict]:
    """Returns one row per factor and level: means over the splits, and the difference from the static table.

    Levels with a cascade are left out if a table has gaps or unknown costs.
    """
    known: dict[Setup, dict] = {}
    tasks = [with_complete_models(task) for task in tasks]
    rows = []
    for factor, levels in LEVELS.items():
        for level, changes in levels.items():
            setup = replace(Setup(), **changes)
            if setup.cascade != "none" and not all(has_costs(task) for task in tasks):
                continue
            known[setup] = known.get(setup) or measure_setup(tasks, setup)
            rows.append({"factor": factor, "level": level, "as_shipped": setup == Setup()} | known[setup])
    return rows


def with_complete_models(task: Task) -> Task:
    """Returns the split with only the models that ran on every task, at a known cost if the table has any.

    Tasks that the static table's model did not run on, or at no known cost, are left out first.
    """
    has_cost = not np.isnan(task.train.cost_usd).all()

    def known(part: OutcomeTable) -> np.ndarray:
        return part.ran & (~np.isnan(part.cost_usd) | (not has_cost))

    usual = task.train.models.index(task.static)
    first, second = (known(part)[:, usual] for part in (task.train, task.held_out))
    train, held_out = task.train.select(first), task.held_out.select(second)
    whole = known(train).all(axis=0) & known(held_out).all(axis=0)
    kept = tuple(np.array(train.models)[whole].tolist())
    return task._replace(
        train=train.with_models(kept),
        held_out=held_out.with_models(kept),
        train_contexts=select_rows(task.train_contexts, first),
        held_out_contexts=select_rows(task.held_out_contexts, second),
    )


def has_costs(task: Task) -> bool:
    """Returns True if every model ran on every task at a known cost, as cascades need it."""
    parts = (task.train, task.held_out)
    return all(table.ran.all() and not np.isnan(table.cost_usd).any() for table in parts)


def measure_setup(tasks: list[Task], setup: Setup) -> dict:
    """Returns the means of a setup over the splits, and its difference from the static table.

    The interval is over the tasks of the first split, because splits share tasks and would make it too narrow.
    """
    served = [serve(task, setup) for task in tasks]
    base = [choice_result(task, static(task)) for task in tasks]
    difference = [one.reward() - usual.reward() for one, usual in zip(served, base, strict=True)]
    first = difference[0]
    half = NORMAL_95 * first.std(ddof=1) / np.sqrt(len(first))
    quality, cost, usual = (
        float(np.mean([part.mean() for part in parts]))
        for parts in ([s.quality for s in served], [s.cost_usd for s in served], [b.cost_usd for b in base])
    )
    return {
        "quality": quality,
        "relative_cost": None if np.isnan(cost) or usual == 0 else cost / usual,
        "difference": float(np.mean([part.mean() for part in difference])),
        "interval_of_first_split": [float(first.mean() - half), float(first.mean() + half)],
        "share_of_tasks_that_change": float(np.mean([(part != 0).mean() for part in difference])),
    }


def format_results(results: dict) -> str:
    """Returns the rows as a text table; a star marks the setup that sage ships."""
    rows = results[KIND]
    width = max(len(f"{row['factor']}: {row['level']}") for row in rows) + 2
    lines = [
        runner.title_of(results),
        f"{'':{width}}  quality  x cost  reward minus the static table's (first split)  changed",
    ]
    for row in rows:
        name = f"{row['factor']}: {row['level']}{' *' if row['as_shipped'] else ''}"
        cost = "     -" if row["relative_cost"] is None else f"{row['relative_cost']:6.3f}"
        low, high = row["interval_of_first_split"]
        lines.append(
            f"{name:{width}}  {row['quality']:7.4f}  {cost}  {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
            f"{row['share_of_tasks_that_change']:25.0%}"
        )
    return "\n".join(lines)


def serve(task: Task, setup: Setup) -> SetupResult:
    return (
        cascade_result(task, setup)
        if setup.cascade != "none"
        else choice_result(task, routed_probabilities(task, setup))
    )


def choice_result(task: Task, probabilities: np.ndarray) -> SetupResult:
    chosen = (np.where(probabilities > 0, values, 0.0) for values in (task.held_out.score, task.held_out.cost_usd))
    return SetupResult(*((probabilities * values).sum(axis=1) for values in chosen))


def routed_probabilities(task: Task, setup: Setup) -> np.ndarray:
    """Returns [held out, models]: the choices of the guarded policy that is learned from a log of the training tasks.

    The static table with exploration wrote that log.
    """
    usual = PreferenceOrder((task.static,))
    train, held_out = (visible_contexts(contexts, setup) for contexts in (task.train_contexts, task.held_out_contexts))
    log = replay(task.train, Exploring(usual, setup.exploration), LOGGED, seed=task.seed, contexts=train)
    if setup.plausible:
        among = find_plausible(log, seed=task.seed)
        log = replay(
            task.train, Exploring(usual, setup.exploration, among), LOGGED, seed=task.seed + 1_000, contexts=train
        )
    policy: LearnedPolicy = LEARNERS[setup.learner](log, seed=task.seed)
    guard = GuardRules(setup.floor, fallback=usual)
    return serving_distribution(policy, guard, held_out, task.held_out.models, task.held_out.ran).probabilities


def visible_contexts(contexts: Contexts, setup: Setup) -> Contexts:
    if setup.features == "role":
        return contexts._replace(category=np.full(len(contexts.role), ""))
    return contexts


def cascade_result(task: Task, setup: Setup) -> SetupResult:
    """Returns the exact expectation of the setup's cascade on the held-out tasks, over all possible verdicts."""
    policy = CASCADES[setup.cascade](task, setup.verifier)
    models = policy.ladder if isinstance(policy, LadderCascade) else policy.models
    found = expected_of(task.held_out.with_models(models), policy, setup.verifier)
    return SetupResult(found.quality, found.cost)


def ladder(task: Task, verifier: SimulatedVerifier) -> LadderCascade:
    """Returns a ladder of the best single model and the three that add most on the training tasks, cheapest first."""
    return LadderCascade(choose_pool(task.train, verifier, PRICE))


def learned_from_ladder(task: Task, verifier: SimulatedVerifier) -> LearnedCascade:
    """Returns the cascade learned from logged episodes of that ladder with exploration."""
    wrote = ladder(task, verifier)
    pool = task.train.with_models(wrote.ladder)
    episodes = replay_cascade(
        pool,
        ExploringCascade(wrote, EXPLORED),
        EPISODES,
        verifier=verifier,
        seed=task.seed,
        contexts=task.train_contexts,
    )
    return learn_fitted_q(episodes, PRICE, seed=task.seed)


def with_known_rates(task: Task, verifier: SimulatedVerifier) -> LearnedCascade:
    """Returns the cascade with the best stopping for all training outcomes and the verifier's true rates."""
    found = cascade_row(task.train, verifier, PRICE)
    assert found is not None
    return found


CASCADES: dict[str, Callable[[Task, SimulatedVerifier], LadderCascade | LearnedCascade]] = {
    "ladder": ladder,
    "learned": learned_from_ladder,
    "known rates": with_known_rates,
}

PACKS = {KIND: PackKind(run_again, headline)}
