"""Ranking of trained policies by logged data, and the quality of the ranking if there is an environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

import numpy as np

from rl_base.evaluation.ranking import Standing, Term, compare, spearman
from rl_training.core.arguments import ConfigError
from rl_training.data import Dataset
from rl_training.evaluation.critic_values import CriticValues

Criterion = Literal["fitted_q", "initial_value", "soft_opc", "td_error"]
CRITERIA = get_args(Criterion)


@dataclass(frozen=True)
class Ranking:
    """Candidate policies in their order by a criterion, best first, with intervals and, if measured, true returns."""

    paths: tuple[str, ...]  # of agents in memory, their names and numbers
    estimates: tuple[float, ...]  # what the criterion says of each
    returns: tuple[float, ...] | None = None  # mean returns in the environment
    rank_correlation: float | None = None  # Spearman's, of the criterion and the returns
    regret: float | None = None  # the best candidate's return minus that of the one ranked first
    criterion: Criterion = "fitted_q"
    intervals: tuple[tuple[float, float], ...] = ()  # over episodes
    level: float = 0.95
    as_good: tuple[str, ...] = ()  # candidates that the data cannot tell from the first
    first_is_best: float = 1.0  # share of the resamples of episodes in which the first is the best
    impossible: tuple[str, ...] = ()  # candidates with a value beyond any sum of the data's rewards: it diverged

    @property
    def decided(self) -> bool:
        """True if the data distinguish the first candidate from all others by this criterion and no values diverged."""
        return not self.as_good and not self.impossible

    def to_json(self) -> dict:
        return asdict(self) | {"decided": self.decided}

    def __str__(self) -> str:
        truth = self.returns or (None,) * len(self.paths)
        rows = zip(self.paths, self.estimates, self.intervals, truth, strict=True)
        lines = [
            f"{number}. {path}: {self.criterion} {estimate:.4g} ({low:.4g} to {high:.4g})"
            + (f", return {value:.2f}" if value is not None else "")
            for number, (path, estimate, (low, high), value) in enumerate(rows, 1)
        ]
        return "\n".join([*lines, self.verdict, self.reliability])

    @property
    def verdict(self) -> str:
        """A sentence that says whether the data decide which candidate is best, and what to do if not."""
        if self.impossible:
            return (
                f"cannot tell: the values of {', '.join(self.impossible)} are beyond any discounted sum of the data's rewards, so "
                "they diverged; leave these candidates out, or rank by another criterion"
            )
        if self.decided:
            return f"{self.paths[0]} is ahead of all others at {self.level:.0%}, by this criterion"
        return (
            f"cannot tell {self.paths[0]} from {', '.join(self.as_good)}: the interval of their difference over episodes contains "
            f"0 (the first is ahead in {self.first_is_best:.0%} of the resamples); add episodes, or try them in the environment"
        )

    @property
    def reliability(self) -> str:
        if self.returns is None:
            return (
                "how well this criterion ranks these candidates is not known: intervals leave out the errors of values; "
                "truth_episodes measures it where there is an environment"
            )
        correlation = "undefined" if self.rank_correlation is None else f"{self.rank_correlation:.2f}"
        return f"rank correlation {correlation}, regret of the first {self.regret:.2f}"


def rank_by_terms(
    names: list[str],
    terms: list[list[Term]],
    data: Dataset,
    *,
    criterion: Criterion,
    gamma: float,
    level: float,
    seed: int,
    returns: list[float],
) -> Ranking:
    """Returns a ranking of candidates by a criterion, from each candidate's terms, which are sums by episode.

    `returns` are the candidates' true returns, or empty. Candidates whose value exceeds any discounted sum of the
    data's rewards are listed as `impossible`.
    """
    standing = compare(terms, higher_is_better=criterion != "td_error", level=level, seed=seed)
    found = ranked(names, standing, criterion, level, np.array(returns))
    if criterion not in ("fitted_q", "initial_value"):
        return found
    low, high = possible_values(data.reward, gamma)
    outside = (path for path, value in zip(found.paths, found.estimates, strict=True) if not low <= value <= high)
    return replace(found, impossible=tuple(outside))


def possible_values(rewards: np.ndarray, gamma: float) -> tuple[float, float]:
    """Returns the smallest and largest discounted sum of rewards in the range of the array; maybe infinite.

    Episodes may have any length.
    """
    least, most = min(float(rewards.min()), 0.0), max(float(rewards.max()), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.nan_to_num(np.array([least, most]) / (1 - gamma), nan=0.0, posinf=np.inf, neginf=-np.inf)
    return float(bounds[0]), float(bounds[1])


def critic_terms(values: CriticValues, data: Dataset, criterion: Criterion, success: float) -> list[Term]:
    """Returns the terms, sums by episode, whose means give the criterion: from a candidate's own critics, one or two.

    `success` is the share of episodes that "soft_opc" counts as successes. Raises ConfigError if all of them would be.
    """
    episodes = data.episodes()
    if criterion == "initial_value":
        return [first_states(values.state_values, data)]
    numbers = values.td_errors**2 if criterion == "td_error" else values.action_values
    total, length = np.add.reduceat(numbers, episodes.start), episodes.length.astype(np.float64)
    if criterion == "td_error":
        return [Term(total, length)]
    good = successes(data.returns, success)
    return [Term(total * good, length * good), Term(total, length)]


def successes(returns: np.ndarray, share: float) -> np.ndarray:
    """Returns a bool [episodes], True for the `share` with the highest returns, ties included.

    Raises ConfigError if that is every episode.
    """
    good = returns >= np.quantile(returns, 1 - share, method="higher")
    if good.all():
        raise ConfigError(
            f"all {len(returns)} episodes have a return of {returns.max():g} or tie with the best {share:.0%}: soft_opc needs "
            "better and worse episodes; use another criterion or other data"
        )
    return good


def first_states(values: np.ndarray, data: Dataset) -> Term:
    """Returns the values of episodes' first states, from `values` [rows], as a term whose mean is over episodes."""
    first = values[data.episodes().start]
    return Term(first, np.ones_like(first))


def ranked(names: list[str], standing: Standing, criterion: Criterion, level: float, truth: np.ndarray) -> Ranking:
    """Returns a ranking with the candidates' names in the order of a standing, and the candidates as good as the first.

    If true returns [candidates] are given, it has their rank correlation with the scores, and the regret of the first.
    """
    paths = tuple(names[index] for index in standing.order)
    as_good = tuple(path for path, (low, _) in zip(paths[1:], standing.differences[1:], strict=True) if low <= 0)
    found = Ranking(
        paths,
        standing.scores,
        criterion=criterion,
        intervals=standing.intervals,
        level=level,
        as_good=as_good,
        first_is_best=standing.first_is_best,
    )
    if not len(truth):
        return found
    ordered = truth[list(standing.order)]
    goodness = np.array(standing.scores) * (-1 if criterion == "td_error" else 1)
    return replace(
        found,
        returns=tuple(float(value) for value in ordered),
        rank_correlation=spearman(goodness, ordered),
        regret=float(truth.max() - ordered[0]),
    )
