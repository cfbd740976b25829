"""Bandits and an MDP with known values, from which `ope_coverage.py` draws logs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_base.evaluation.intervals import Method
from rl_base.evaluation.policy_value import Values, episode_estimates
from rl_training.evaluation import (
    BanditLog,
    Diagnostics,
    EpisodeLog,
    Estimate,
    cross_fit,
    diagnose_bandit,
    diagnose_episodes,
    direct_method,
    doubly_robust,
    interval,
    inverse_propensity,
    paired_difference,
    self_normalized,
    sequential_doubly_robust,
    switch_doubly_robust,
)

PROMOTION_LEVEL = 0.975
ASYMPTOTIC, WIDENED, CONSERVATIVE = "asymptotic", "widened", "conservative"
NUM_CONTEXTS, NUM_ACTIONS = 6, 4
Found = dict[str, tuple[str, Estimate, Method]]
"""Name of a column to its kind, its estimate and the method of its interval."""
Policies = dict[str, np.ndarray]
"""Name of a candidate to its probabilities [states or contexts, actions]."""


def around(choices: np.ndarray, exploration: float, num_actions: int = NUM_ACTIONS) -> np.ndarray:
    """A table of probabilities: mostly the choice, a share of everything."""
    return (1 - exploration) * np.eye(num_actions)[choices] + exploration / num_actions


@dataclass(frozen=True)
class Bandit:
    """Contexts with known probabilities; rewards are 0 or 1, with chances that the rows of a task share."""

    name: str
    num_tasks: int
    behaviour_exploration: float
    target_exploration: float
    most_rows_per_task: int = 1
    task_effect: float = 0.0
    impossible_action: bool = False
    rare_action: float | None = None
    """Behaviour probability of the last action, if it is another than exploration gives."""

    def chances(self) -> np.ndarray:
        """[contexts, actions] of a reward; not linear in the features."""
        return np.random.default_rng(7).uniform(0.25, 0.75, size=(NUM_CONTEXTS, NUM_ACTIONS))

    def behaviour(self) -> np.ndarray:
        """Explores around the first action; in one cell the last action is impossible in half of the contexts."""
        table = around(np.zeros(NUM_CONTEXTS, dtype=int), self.behaviour_exploration)
        if self.impossible_action:
            table[::2, -1] = 0
        if self.rare_action is not None:
            table[:, -1] = self.rare_action
        return table / table.sum(axis=1, keepdims=True)

    def target(self) -> np.ndarray:
        """Takes the first action in two contexts only."""
        return around(np.array([0, 0, 1, 2, 1, 2]), self.target_exploration)

    def value(self, policy: np.ndarray) -> float:
        return float((policy * self.chances()).sum(axis=1).mean())

    def without_gain(self) -> np.ndarray:
        """A policy that differs everywhere from the target and is worth exactly the same."""
        better, worse = (around(f(self.chances(), axis=1), self.target_exploration) for f in (np.argmax, np.argmin))
        share = (self.value(self.target()) - self.value(worse)) / (self.value(better) - self.value(worse))
        return share * better + (1 - share) * worse

    def with_gain(self) -> np.ndarray:
        return around(np.argmax(self.chances(), axis=1), self.target_exploration)

    def draw(self, rng: np.random.Generator) -> tuple[BanditLog, np.ndarray]:
        """A log, and the contexts of its rows. Context and effect belong to the task."""
        sizes = rng.integers(1, self.most_rows_per_task + 1, size=self.num_tasks)
        task = np.repeat(np.arange(self.num_tasks), sizes)
        context = rng.integers(NUM_CONTEXTS, size=self.num_tasks)[task]
        effect = self.task_effect * rng.choice([-1.0, 1.0], size=self.num_tasks)[task]
        propensities = self.behaviour()[context]
        drawn = rng.random((len(task), 1)) > propensities.cumsum(axis=1)
        actions = drawn.sum(axis=1).clip(max=NUM_ACTIONS - 1)
        rewards = rng.random(len(task)) < self.chances()[context, actions] + effect
        features = np.stack([context / NUM_CONTEXTS, context % 2], axis=1).astype(float)
        log = BanditLog(
            actions=actions,
            rewards=rewards.astype(float),
            propensities=propensities,
            features=features,
            clusters=task,
            reward_range=(0.0, 1.0),
        )
        return log, context

    def run(self, rng: np.random.Generator, candidates: Policies) -> Replication:
        log, context = self.draw(rng)
        target = self.target()[context]
        diagnostics = diagnose_bandit(log, target)
        if diagnostics.refusal:
            return Replication(diagnostics, {}, dict.fromkeys(candidates, False))
        predictions = cross_fit(log, seed=int(rng.integers(2**31)))
        robust = doubly_robust(log, target, predictions)
        weighted = inverse_propensity(log, target)
        direct, switch = direct_method(log, target, predictions), switch_doubly_robust(log, target, predictions)
        kind = WIDENED if self.impossible_action else ASYMPTOTIC
        found: Found = {
            "IPS, t": (kind, weighted, "t"),
            "SNIPS, t": (kind, self_normalized(log, target), "t"),
            "doubly robust, t": (kind, robust, "t"),
            "doubly robust, bootstrap": (kind, robust, "bootstrap"),
            "IPS, Bernstein": (CONSERVATIVE, weighted, "bernstein"),
            "doubly robust, Bernstein": (CONSERVATIVE, robust, "bernstein"),
            "SWITCH-DR, Bernstein": (CONSERVATIVE, switch, "bernstein"),
            "SWITCH-DR, t": (WIDENED, switch, "t"),
            "direct method, t": (WIDENED, direct, "t"),
        }

        def promoted(candidate: np.ndarray) -> bool:
            refused = diagnose_bandit(log, candidate).refusal
            return not refused and promotes(doubly_robust(log, candidate, predictions), robust)

        promotions = {name: promoted(policy[context]) for name, policy in candidates.items()}
        return Replication(diagnostics, found, promotions)

    def candidates(self) -> Policies:
        return {"no gain": self.without_gain(), "gain": self.with_gain()}

    def truth(self) -> float:
        return self.value(self.target())


@dataclass(frozen=True)
class Chain:
    """Three states, two actions, up to four steps; an episode may end before."""

    name: str
    num_episodes: int
    behaviour_exploration: float
    target_exploration: float
    horizon: int = 4
    gamma: float = 0.95

    def dynamics(self) -> tuple[np.ndarray, np.ndarray]:
        """[states, actions, next states] chances, where the last next state is the end; and mean rewards."""
        rng = np.random.default_rng(11)
        return rng.dirichlet(np.ones(4), size=(3, 2)), rng.uniform(-1, 1, size=(3, 2))

    def behaviour(self) -> np.ndarray:
        return around(np.zeros(3, dtype=int), self.behaviour_exploration, 2)

    def target(self) -> np.ndarray:
        return around(np.array([1, 0, 1]), self.target_exploration, 2)

    def values(self, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exact Q [time, states, actions] and V [time, states]."""
        following, rewards = self.dynamics()
        q, v = np.zeros((self.horizon, 3, 2)), np.zeros((self.horizon + 1, 4))
        for t in reversed(range(self.horizon)):
            q[t] = rewards + self.gamma * following @ v[t + 1]
            v[t, :3] = (policy * q[t]).sum(axis=1)
        return q, v

    def value(self, policy: np.ndarray) -> float:
        return float(self.values(policy)[1][0, 0])

    def candidates(self) -> Policies:
        """The mixture of the best and the worst that is worth the target is found by bisection."""
        choices = [np.array([a, b, c]) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
        tables = sorted((around(choice, self.target_exploration, 2) for choice in choices), key=self.value)
        worst, best = tables[0], tables[-1]
        low, high, truth = 0.0, 1.0, self.truth()
        for _ in range(60):
            share = (low + high) / 2
            below = self.value(share * best + (1 - share) * worst) < truth
            low, high = (share, high) if below else (low, share)
        return {"no gain": low * best + (1 - low) * worst, "gain": best}

    def truth(self) -> float:
        return self.value(self.target())

    def draw(self, rng: np.random.Generator) -> tuple[EpisodeLog, np.ndarray, np.ndarray, np.ndarray]:
        """A log with state, action and time of every step."""
        following, means = self.dynamics()
        state, alive = np.zeros(self.num_episodes, dtype=int), np.ones(self.num_episodes, dtype=bool)
        columns = []
        for t in range(self.horizon):
            action = (rng.random(self.num_episodes) < self.behaviour()[np.minimum(state, 2), 1]).astype(int)
            now = np.minimum(state, 2)
            reward = means[now, action] + rng.normal(size=self.num_episodes)
            columns.append((np.flatnonzero(alive), now[alive], action[alive], np.full(alive.sum(), t), reward[alive]))
            ahead = following[now, action].cumsum(axis=1)
            state = (rng.random((self.num_episodes, 1)) > ahead).sum(axis=1).clip(max=3)
            alive &= state < 3
        episode, states, actions, times, rewards = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.lexsort((times, episode))
        log = EpisodeLog(
            episodes=episode[order],
            rewards=rewards[order],
            propensities=self.behaviour()[states, actions][order],
            gamma=self.gamma,
        )
        return log, states[order], actions[order], times[order]

    def run(self, rng: np.random.Generator, candidates: Policies) -> Replication:
        log, state, action, t = self.draw(rng)
        target = self.target()

        def wrong_values(policy: np.ndarray) -> Values:
            """Far from exact, as a model would be, but consistent."""
            q = 0.5 * self.values(policy)[0] + 0.3
            return q[t, state, action], (policy * q).sum(axis=2)[t, state]

        estimates = {e.name: e for e in episode_estimates(log, target[state, action], wrong_values(target))}
        found: Found = {f"{name}, t": (ASYMPTOTIC, estimate, "t") for name, estimate in estimates.items()}
        for name in ("weighted per-decision IS", "sequential DR"):
            found[f"{name}, bootstrap"] = (ASYMPTOTIC, estimates[name], "bootstrap")
        diagnostics = diagnose_episodes(log, target[state, action])

        def promoted(policy: np.ndarray) -> bool:
            taken = policy[state, action]
            if diagnostics.refusal or diagnose_episodes(log, taken).refusal:
                return False
            return promotes(sequential_doubly_robust(log, taken, *wrong_values(policy)), estimates["sequential DR"])

        promotions = {name: promoted(policy) for name, policy in candidates.items()}
        return Replication(diagnostics, found, promotions)


Cell = Bandit | Chain


@dataclass(frozen=True)
class Replication:
    """What one log gave."""

    diagnostics: Diagnostics
    found: Found
    promotions: dict[str, bool]


def promotes(candidate: Estimate, baseline: Estimate) -> bool:
    bound = interval(paired_difference(candidate, baseline), level=PROMOTION_LEVEL, side="lower")
    return bound.low > 0


CELLS: tuple[Cell, ...] = (
    Bandit("good overlap", 1000, behaviour_exploration=0.7, target_exploration=0.5),
    Bandit("poor overlap", 4000, behaviour_exploration=0.15, target_exploration=0.2),
    Bandit("very poor overlap", 4000, behaviour_exploration=0.05, target_exploration=0.2),
    Bandit("hopeless overlap", 2000, behaviour_exploration=0.02, target_exploration=0.2),
    Bandit("rare large weights", 1000, behaviour_exploration=0.7, target_exploration=0.4, rare_action=0.001),
    Bandit("small", 100, behaviour_exploration=0.9, target_exploration=0.6),
    Bandit("clustered", 250, 0.7, 0.5, most_rows_per_task=7, task_effect=0.25),
    Bandit("without support", 1000, 0.7, 0.5, impossible_action=True),
    Chain("MDP, good overlap", 400, behaviour_exploration=0.9, target_exploration=0.6),
    Chain("MDP, poor overlap", 1500, behaviour_exploration=0.6, target_exploration=0.4),
)
