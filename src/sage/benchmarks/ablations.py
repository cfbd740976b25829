"""What each part of the method is worth: one setting is changed at a time, and held-out tasks say what that does.

All outcomes of the held-out tasks are known, so differences are measured, not estimated from a log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sage.benchmarks.baselines import Task, static
from sage.benchmarks.mixing_line import MixingLine
from sage.orchestrator.models_file import GuardLimits
from sage.policy import Contexts, select_rows
from sage.rl.cascade_ladder import LadderCascade
from sage.rl.cascade_policy import CascadePolicy
from sage.rl.cascade_replay import SimulatedVerifier, walk
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.learned_policy import LearnedPolicy
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import replay
from sage.rl.reward import RewardWeights, composite_reward

LOGGED = 20_000  # decisions, or cascades, that are learned from
REPEATS = 20  # of every held-out task with a verifier, whose verdicts are drawn
NORMAL_95 = 1.959964
WEIGHTS = RewardWeights(version="quality_and_cost", latency=0.0, retries=0.0, timed_out=0.0)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Which log is learned from, by what, and how it serves. The defaults are what sage does without a verifier."""

    features: str = "category"
    learner: str = "train-dr"
    exploration: float = 0.1
    floor: float = GuardLimits().confidence_floor
    cascade: str = "none"
    verifier: SimulatedVerifier = SimulatedVerifier()


LEVELS: dict[str, dict[str, dict]] = {
    "features": {"role": {"features": "role"}, "role and category": {}},
    "learner": {"train-table": {"learner": "train-table"}, "train-dr": {}},
    "exploration": {".02": {"exploration": 0.02}, ".1": {}, ".3": {"exploration": 0.3}, "1": {"exploration": 1.0}},
    "calibration of train-table": {
        "acts at any confidence": {"learner": "train-table", "floor": 0.0},
        "acts from .9 on": {"learner": "train-table"},
        "acts from .99 on": {"learner": "train-table", "floor": 0.99},
    },
    "cascade": {"none": {}, "ladder": {"cascade": "ladder"}},
    "verifier of the ladder": {
        verifier.name.removeprefix("simulated "): {"cascade": "ladder", "verifier": verifier}
        for verifier in (
            SimulatedVerifier(1.0, 0.0),
            SimulatedVerifier(0.95, 0.1),
            SimulatedVerifier(0.95, 0.1, 0.5),
            SimulatedVerifier(0.8, 0.3),
            SimulatedVerifier(0.5, 0.5),
        )
    },
}
LEARNERS = {"train-table": learn_table, "train-dr": learn_doubly_robust}


class Served(NamedTuple):
    """Of every held-out task."""

    quality: np.ndarray
    cost_usd: np.ndarray

    def reward(self) -> np.ndarray:
        nothing = np.zeros(len(self.quality))
        return composite_reward(self.quality, np.nan_to_num(self.cost_usd), nothing, nothing, nothing > 0, WEIGHTS)


def run_ablations(tasks: list[Task]) -> list[dict]:
    """One row per factor and level: means over the splits, and the difference from the static table."""
    known: dict[Setup, dict] = {}
    rows = []
    for factor, levels in LEVELS.items():
        for level, changes in levels.items():
            setup = replace(Setup(), **changes)
            if setup.cascade != "none" and any(np.isnan(task.train.cost_usd).any() for task in tasks):
                continue  # a ladder goes from cheap to dear
            known[setup] = known.get(setup) or measured(tasks, setup)
            rows.append({"factor": factor, "level": level, "as_shipped": setup == Setup()} | known[setup])
    return rows


def measured(tasks: list[Task], setup: Setup) -> dict:
    """The interval is over the tasks of the first split: splits share tasks and would make it too narrow."""
    served = [serve(task, setup) for task in tasks]
    base = [of_choice(task, static(task)) for task in tasks]
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


def format_ablations(rows: list[dict]) -> str:
    """A table for people; a star marks what is shipped."""
    width = max(len(f"{row['factor']}: {row['level']}") for row in rows) + 2
    lines = [f"{'':{width}}  quality  x cost  reward minus the static table's (first split)  changed"]
    for row in rows:
        name = f"{row['factor']}: {row['level']}{' *' if row['as_shipped'] else ''}"
        cost = "     -" if row["relative_cost"] is None else f"{row['relative_cost']:6.3f}"
        low, high = row["interval_of_first_split"]
        lines.append(
            f"{name:{width}}  {row['quality']:7.4f}  {cost}  {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
            f"{row['share_of_tasks_that_change']:25.0%}"
        )
    return "\n".join(lines)


def serve(task: Task, setup: Setup) -> Served:
    return cascaded(task, setup) if setup.cascade != "none" else of_choice(task, routed(task, setup))


def of_choice(task: Task, probabilities: np.ndarray) -> Served:
    chosen = (np.where(probabilities > 0, values, 0.0) for values in (task.held_out.score, task.held_out.cost_usd))
    return Served(*((probabilities * values).sum(axis=1) for values in chosen))


def routed(task: Task, setup: Setup) -> np.ndarray:
    """[held out, models] by what is learned from a log of the static table over the tasks of train."""
    usual = Exploring(PreferenceOrder((task.static,)), setup.exploration)
    train, held_out = (looked_at(contexts, setup) for contexts in (task.train_contexts, task.held_out_contexts))
    log = replay(task.train, usual, LOGGED, seed=task.seed, contexts=train)
    policy: LearnedPolicy = LEARNERS[setup.learner](log, seed=task.seed)
    models, ran = task.held_out.models, task.held_out.ran
    sure = policy.confidence(held_out, models, ran) >= setup.floor
    return np.where(sure[:, None], policy.probabilities(held_out, models, ran), static(task))


def looked_at(contexts: Contexts, setup: Setup) -> Contexts:
    if setup.features == "role":
        return contexts._replace(category=np.full(len(contexts.role), ""))
    return contexts


def cascaded(task: Task, setup: Setup) -> Served:
    policy = ladder_of(task)
    rows = np.repeat(np.arange(len(task.held_out)), REPEATS)
    contexts = select_rows(task.held_out_contexts, rows)
    steps, quality = walk(
        task.held_out,
        rows,
        contexts,
        policy=policy,
        verifier=setup.verifier,
        limit=len(task.held_out.models),
        generator=np.random.default_rng(task.seed),
    )
    cost = np.bincount(rows[steps["episode"]], steps["cost_usd"], len(task.held_out)) / REPEATS
    return Served(np.bincount(rows, quality) / REPEATS, cost)


def ladder_of(task: Task) -> CascadePolicy:
    """From the cheapest to the best of the models that no mixture of others beats on train."""
    corners = MixingLine.of(task.train.score, task.train.cost_usd).models
    return LadderCascade(tuple(task.train.models[k] for k in corners))
