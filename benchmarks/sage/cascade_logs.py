"""Logs of a ladder with exploration, and cascades whose value is known exactly: what the proof of cascades is tried on.

The whole table is the population. A log has 1,000 tasks, drawn with replacement, and 2,000 episodes, whose tasks are drawn from
these. Rewards are quality less .15 per dollar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from cascade_replay import replay_cascade
from cascade_worlds import stopping

from rl_base.evaluation import EpisodeLog, cross_fit_values, ratio_moments
from sage.benchmarks.cascades import choose_pool, expected_of
from sage.evidence.cascades.cascade_data import CascadeData
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.cells import Cells
from sage.policies.policy import Contexts
from sage.rl.cascades.cascade_estimates import target_of
from sage.rl.cascades.cascade_learning import episode_log, fit_histories, mean_costs, state_features
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

PRICE = 0.15
LOG_EPISODES, LOG_TASKS = 2_000, 1_000
INCUMBENT = "ladder"
TARGETS = (INCUMBENT, "cheap optimal stopping", "cheapest alone", "dearest alone")


@dataclass(frozen=True, eq=False)
class DrawnLog:
    """A log, and what it says about each cascade."""

    data: CascadeData
    log: EpisodeLog
    targets: dict[str, np.ndarray]  # [n, models + 1] probabilities
    seed: int

    def taken(self, name: str) -> np.ndarray:
        return self.targets[name][np.arange(len(self.data.action)), self.data.action]

    def moments(self, name: str) -> np.ndarray:
        return ratio_moments(self.targets[name], self.data.propensity)

    def values(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        features = state_features(self.data, Cells.of(self.data.contexts), mean_costs(self.data))
        return cross_fit_values(
            self.log, features, self.data.action, self.targets[name], fit=fit_histories, seed=self.seed
        )


@dataclass(frozen=True, eq=False)
class LadderWorld:
    """The cascades by name, with their exact rewards, and the ladder that writes logs."""

    pool: OutcomeTable
    contexts: Contexts
    verifier: SimulatedVerifier
    logger: CascadePolicy
    cascades: dict[str, CascadePolicy]
    truth: dict[str, float]

    @classmethod
    def of(
        cls, table: OutcomeTable, verifier: SimulatedVerifier, exploration: float, names: tuple[str, ...]
    ) -> LadderWorld:
        independent = SimulatedVerifier(verifier.true_positive, verifier.false_positive)
        ladder = choose_pool(table, independent, 2 * PRICE, size=3)
        pool = table.with_models(tuple(sorted(ladder)))
        every = (
            LadderCascade(ladder),
            stopping(pool, verifier, 2 * PRICE),
            LadderCascade(ladder[:1]),
            LadderCascade(ladder[-1:]),
        )
        cascades = {name: cascade for name, cascade in zip(TARGETS, every, strict=True) if name in names}
        truth = {}
        for name, cascade in cascades.items():
            found = expected_of(pool, cascade, verifier)
            truth[name] = float((found.quality - PRICE * found.cost).mean())
        logger = ExploringCascade(LadderCascade(ladder), exploration)
        return cls(pool, pool.contexts(), verifier, logger, cascades, truth)

    def draw(self, seed: int) -> DrawnLog:
        """Every drawn task is a task of its own, whichever row of the table it is."""
        rng = np.random.default_rng((1, seed))
        tasks = rng.integers(len(self.pool), size=LOG_TASKS)
        number = rng.integers(LOG_TASKS, size=LOG_EPISODES)
        data = replay_cascade(
            self.pool,
            self.logger,
            LOG_EPISODES,
            verifier=self.verifier,
            seed=seed,
            contexts=self.contexts,
            rows=tasks[number],
        )
        data = replace(data, contexts=data.contexts._replace(task_id=np.array([f"task {k}" for k in number])))
        targets = {name: target_of(data, cascade) for name, cascade in self.cascades.items()}
        return DrawnLog(data, episode_log(data, PRICE), targets, seed)
