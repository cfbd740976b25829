"""The choice of a cascade among learners or prices, by estimates on tasks that it was not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from rl_base.evaluation.reward_model import assign_folds
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.mixing_line import MixingLine
from sage.evidence.objective import Objective
from sage.policies.cascades.cascade_features import history_codes
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.cells import Cells
from sage.rl.cascades.cascade_dqn import learn_dqn
from sage.rl.cascades.cascade_estimates import episode_values, incumbent_target, part_values, target_of
from sage.rl.cascades.cascade_learning import learn_fitted_q, mean_costs, training_of

FOLDS = 3
ERRORS = 2.0  # standard errors that an estimate may be wrong by
WORTHS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 25.6, 102.4)  # of the log's mean episode, in quality
Learner = Callable[[CascadeData, float], LearnedCascade]
LEARNERS: dict[str, Learner] = {
    "fitted-q": learn_fitted_q,
    "fitted-q-wide": partial(learn_fitted_q, wide=True),
    "dqn": learn_dqn,
}
INCUMBENT = "incumbent"  # the name of a cascade that decides as the incumbent does
Candidate = Callable[[CascadeData], LearnedCascade]


def choose_cascade(
    data: CascadeData, price: float, learners: dict[str, Learner] = LEARNERS, *, seed: int = 0
) -> LearnedCascade:
    """Learns a cascade by the first learner, or by another that is better on held-out tasks.

    Better means by more than a standard error. The comparison is kept in the training's calibration: each learner's
    gain over the first, and its standard error by task. Raises ValueError if there are too few tasks for the folds.
    """
    first, *others = learners
    gains = {name: [] for name in others}
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    if task.max() + 1 < 2 * FOLDS:
        raise ValueError(
            f"the episodes are of {task.max() + 1} tasks: at least {2 * FOLDS} are needed to choose a learner"
        )
    fold = assign_folds(task, FOLDS, seed)
    for k in range(FOLDS if others else 0):
        held_out, rest = data.select(fold == k), data.select(fold != k)
        values = {
            name: episode_values(held_out, target_of(held_out, learn(rest, price)), price, seed=seed)
            for name, learn in learners.items()
        }
        for name in others:
            gains[name].append((values[name] - values[first], held_out.contexts.task_id))
    compared = {name: by_task(found) for name, found in gains.items()}
    better = {name: gain for name, (gain, error) in compared.items() if gain > error}
    chosen = max(better, key=lambda name: better[name]) if better else first
    policy = learners[chosen](data, price)
    record = {name: {"gain": gain, "standard_error": error} for name, (gain, error) in compared.items()}
    return replace(policy, training=replace(policy.training, calibration={"against": first, "learners": record}))


def by_task(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Returns the mean over episodes and its standard error clustered by task.

    Each item of `found` holds values [episodes] and their task ids.
    """
    values, tasks = (np.concatenate(parts) for parts in zip(*found, strict=True))
    mean = float(values.mean())
    _, row = np.unique(tasks, return_inverse=True)
    sums = np.bincount(row, values - mean)
    count = len(sums)
    return mean, float(np.sqrt((sums**2).sum() * count / max(count - 1, 1)) / len(values))


def learn_within(
    data: CascadeData,
    objective: Objective,
    incumbent: CascadePolicy | None = None,
    learner: str = "fitted-q",
    *,
    seed: int = 0,
) -> LearnedCascade:
    """Learns a cascade that keeps to the objective's limit; see `PricedCascades.within`.

    Raises ValueError for `learner="dqn"`.
    """
    return PricedCascades.measure(data, incumbent, learner, seed=seed).within(objective)


@dataclass(frozen=True)
class PricedCascades:
    """Cascades for a range of prices and the incumbent, with estimates on tasks that they were not learned from."""

    data: CascadeData
    candidates: list[Candidate]  # the incumbent is the last
    gain: np.ndarray  # [candidates] in quality over the incumbent
    gain_error: np.ndarray
    cost: np.ndarray  # [candidates] USD
    cost_error: np.ndarray
    seed: int
    from_all: dict[int, tuple[LearnedCascade, float]] = field(default_factory=dict)  # what `learned` found

    @classmethod
    def measure(
        cls, data: CascadeData, incumbent: CascadePolicy | None = None, learner: str = "fitted-q", *, seed: int = 0
    ) -> Self:
        """Learns the cascades on parts of the tasks, and judges them on the rest.

        Raises ValueError for `learner="dqn"`.
        """
        learn = LEARNERS[learner]
        if learn is learn_dqn:
            raise ValueError(
                "learner=dqn under a limit would be learned for many prices, which takes hours: give --price, or fitted-q"
            )
        candidates: list[Candidate] = [lambda rows, price=price: learn(rows, price) for price in prices_for(data)]
        candidates.append(partial(copy_incumbent, incumbent=incumbent))
        gain, gain_error, cost, cost_error = np.array(estimate(data, candidates, incumbent, seed)).T
        return cls(data, candidates, gain, gain_error, cost, cost_error, seed)

    def within(self, objective: Objective) -> LearnedCascade:
        """Returns a cascade that keeps to the objective's limit.

        Under a limit on the loss of quality it is the cheapest, under a budget the best. It may be a mixture of
        cascades for two prices, which is the best answer wherever no single price meets the limit exactly (Beutler and
        Ross, 1985). One of the two may be the incumbent, which decides alone where nothing keeps to the limit. The
        limited quantity counts with two standard errors, because the gate asks for bounds.
        """
        if objective.max_usd_per_task is not None:
            return self.within_budget(objective.max_usd_per_task)
        line = MixingLine.through(self.gain - ERRORS * self.gain_error, self.cost)
        return self.mixture(line, line.cost_of(min(-objective.margin, float(line.quality[-1]))))

    def within_budget(self, limit: float) -> LearnedCascade:
        """Returns the best mixture whose cost is within the limit.

        A cascade that is learned from all tasks may escalate more often than those learned from parts of them, which
        the estimates are of. So what is chosen is judged again on all tasks, and counts with the higher of both costs.
        """
        cost = self.cost + ERRORS * self.cost_error
        while True:
            line = MixingLine.through(self.gain, cost)
            chosen = np.flatnonzero(self.shares(line, limit)).tolist() if line.cost[0] <= limit else []
            dearer = {k: self.learned(k)[1] for k in chosen if self.learned(k)[1] > cost[k]}
            if not dearer:
                return self.mixture(line, limit)
            cost[list(dearer)] = list(dearer.values())

    def mixture(self, line: MixingLine, limit: float) -> LearnedCascade:
        within, shares = bool(line.cost[0] <= limit), self.shares(line, limit)
        first, *others = np.flatnonzero(shares).tolist()
        record = {
            "within_limit": within,
            "least_usd_per_task": float(line.cost[0]),
            "incumbent_share": float(shares[-1]),
        }
        policy, _ = self.learned(first)
        policy = replace(policy, training=replace(policy.training, calibration=record))
        return replace(policy, other=self.learned(others[0])[0], share=float(shares[first])) if others else policy

    def shares(self, line: MixingLine, limit: float) -> np.ndarray:
        """Returns [candidates]: the shares of tasks; all are the incumbent's where nothing keeps to the limit."""
        number = len(self.candidates)
        return line.shares(limit, number) if line.cost[0] <= limit else np.eye(number)[-1]

    def learned(self, candidate: int) -> tuple[LearnedCascade, float]:
        """Returns the cascade that is learned from all tasks, and its cost there plus two standard errors."""
        if candidate not in self.from_all:
            policy, data = self.candidates[candidate](self.data), self.data
            _, cost = part_values(data, target_of(data, policy), seed=self.seed)
            mean, error = by_task([(cost, data.contexts.task_id)])
            self.from_all[candidate] = policy, mean + ERRORS * error
        return self.from_all[candidate]


def prices_for(data: CascadeData) -> list[float]:
    """Returns the prices (quality per dollar) that are tried for a limit, scaled by the mean cost of an episode."""
    mean = float(data.total_cost[data.observed].mean())
    return [worth / mean for worth in WORTHS] if mean > 0 else [0.0]


def copy_incumbent(data: CascadeData, incumbent: CascadePolicy | None) -> LearnedCascade:
    """Returns the incumbent as a learned cascade, which a file can keep and a mixture can contain.

    The incumbent's action in a history decides. Where it differs from row to row, the one that is usual in the cell
    after as many attempts decides.
    """
    seen = data.select(data.observed)
    target, cells = incumbent_target(seen, incumbent), Cells.of(seen.contexts)
    codes, history = np.unique(history_codes(seen.order, seen.verdict), return_inverse=True)
    chosen = means_by(history, target, len(codes))
    differs = chosen.max(axis=1) < 1
    attempts, cell = (seen.order > 0).sum(axis=1), cells.index(seen.contexts)[seen.episode]
    rows, size = differs[history], (int(attempts.max()) + 1) * len(cells)
    by_cell = means_by((attempts * len(cells) + cell)[rows], target[rows], size)
    width = 4 * len(seen.models) + 3  # of a summary without cells
    weights = np.zeros((int(attempts.max()) + 1, width + len(cells) + 1, target.shape[1]))
    weights[:, width:-1] = by_cell.reshape(-1, len(cells), target.shape[1])
    values = np.where(chosen > 0, chosen + 1.0 * ~differs[:, None], -np.inf)
    return LearnedCascade(
        name=INCUMBENT,
        models=seen.models,
        training=training_of(data, INCUMBENT, 0.0, 0),
        cells=cells,
        price=0.0,
        codes=codes,
        values=values,
        weights=weights,
        mean_cost=mean_costs(seen),
    )


def means_by(group: np.ndarray, values: np.ndarray, num_groups: int) -> np.ndarray:
    """Returns [groups, columns]: the mean of each group's rows of `values`, 0 for groups without rows."""
    counts = np.maximum(np.bincount(group, minlength=num_groups), 1)
    return np.stack([np.bincount(group, column, num_groups) / counts for column in values.T], axis=1)


def estimate(
    data: CascadeData, candidates: list[Candidate], incumbent: CascadePolicy | None, seed: int
) -> list[tuple[float, float, float, float]]:
    """Returns for each candidate its gain in quality over the incumbent, its cost in USD, and their standard errors.

    The order is gain, error of the gain, cost, error of the cost.
    """
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    fold = assign_folds(task, FOLDS, seed)
    gains, costs = ([[] for _ in candidates] for _ in range(2))
    for k in range(FOLDS):
        held_out, rest = data.select(fold == k), data.select(fold != k)
        tasks, targets = held_out.contexts.task_id, [target_of(held_out, candidate(rest)) for candidate in candidates]
        targets.append(incumbent_target(held_out, incumbent))
        different = {
            target.tobytes(): target for target in targets
        }  # cascades for neighbouring prices are often the same
        values = {key: part_values(held_out, target, seed=seed) for key, target in different.items()}
        *found, (usual, _) = (values[target.tobytes()] for target in targets)
        for number, (quality, cost) in enumerate(found):
            gains[number].append((quality - usual, tasks))
            costs[number].append((cost, tasks))
    return [(*by_task(gain), *by_task(cost)) for gain, cost in zip(gains, costs, strict=True)]
