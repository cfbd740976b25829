"""Choosing among trained policies without an environment, and how good such choices are where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rl_training.api.agent import load
from rl_training.api.off_policy_evaluation import fitted_q
from rl_training.data import Dataset
from rl_training.experiment import ConfigError


@dataclass(frozen=True)
class Ranking:
    """Candidates by estimated value, best first; what is true of them is known only if they were evaluated."""

    paths: tuple[str, ...]
    estimates: tuple[float, ...]  # expected discounted returns by fitted Q evaluation
    returns: tuple[float, ...] | None = None  # mean returns in the environment
    rank_correlation: float | None = None  # Spearman's, of estimates and returns
    regret: float | None = None  # the best candidate's return minus that of the one ranked first

    def to_json(self) -> dict:
        return asdict(self)

    def __str__(self) -> str:
        truth = self.returns or (None,) * len(self.paths)
        rows = zip(self.paths, self.estimates, truth, strict=True)
        lines = [
            f"{number}. {path}: estimate {estimate:.2f}" + (f", return {value:.2f}" if value is not None else "")
            for number, (path, estimate, value) in enumerate(rows, 1)
        ]
        if self.returns is not None:
            correlation = "undefined" if self.rank_correlation is None else f"{self.rank_correlation:.2f}"
            lines.append(f"rank correlation {correlation}, regret of the first {self.regret:.2f}")
        return "\n".join(lines)


def rank(
    paths: Sequence[str | Path],
    data: Dataset,
    *,
    deterministic: bool = False,
    gamma: float | None = None,
    updates: int = 5_000,
    truth_episodes: int = 0,
    seed: int = 0,
    trust: Sequence[str] = (),
) -> Ranking:
    """Ranks saved agents by what the data say of them; with `truth_episodes`, also says how well that worked."""
    if len(paths) < 2:
        raise ConfigError(f"ranking needs at least two saved agents: paths names {len(paths)}")
    estimates, returns = [], []
    for path in paths:
        agent = load(path, device="cpu", trust=trust)
        fitted = fitted_q(agent, data, deterministic=deterministic, gamma=gamma, updates=updates, seed=seed)
        estimates.append(fitted.value)
        if truth_episodes:
            returns.append(agent.evaluate(truth_episodes, deterministic=deterministic, seed=seed).mean)
        agent.close()
    order = np.argsort(-np.array(estimates), kind="stable")
    names = tuple(str(paths[i]) for i in order)
    ordered = tuple(float(estimates[i]) for i in order)
    if not truth_episodes:
        return Ranking(names, ordered)
    truth = np.array(returns)
    return Ranking(
        names,
        ordered,
        tuple(float(truth[i]) for i in order),
        spearman(np.array(estimates), truth),
        float(truth.max() - truth[order[0]]),
    )


def spearman(a: np.ndarray, b: np.ndarray) -> float | None:
    """The correlation of ranks, ties sharing theirs; None where one side has only ties."""
    ranks = [np.unique(x, return_inverse=True, return_counts=True) for x in (a, b)]
    means = [(np.cumsum(counts) - (counts - 1) / 2)[inverse] for _, inverse, counts in ranks]
    if any(np.ptp(mean) == 0 for mean in means):
        return None
    return float(np.corrcoef(means[0], means[1])[0, 1])
