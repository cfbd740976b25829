"""Ranking of trained policies by logged data, and the quality of the ranking if there is an environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from rl_training.api.agent import Agent, load
from rl_training.api.critic_values import critic_values
from rl_training.api.off_policy_evaluation import fitted_q
from rl_training.config import ConfigError
from rl_training.config.parsing import parse_confidence, parse_path, parse_seed, parse_share, parse_steps, shortened
from rl_training.data import Dataset
from rl_training.evaluation.ranking import Standing, Term, compare, spearman

Criterion = Literal["fitted_q", "initial_value", "soft_opc", "td_error"]
CRITERIA = get_args(Criterion)
Candidate = Agent | str | Path


@dataclass(frozen=True)
class Ranking:
    """Candidates by a criterion, best first; true returns are known only if they were evaluated."""

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
        """Returns True if the data distinguish the first candidate from all others, by this criterion."""
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
        """Returns a sentence that says whether the data decide which candidate is best."""
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


def rank(
    candidates: Sequence[Candidate],
    data: Dataset,
    *,
    criterion: Criterion = "fitted_q",
    deterministic: bool = False,
    gamma: float | None = None,
    updates: int = 5_000,
    success: float = 0.25,
    level: float = 0.95,
    truth_episodes: int = 0,
    seed: int = 0,
    trust: Sequence[str] = (),
) -> Ranking:
    """Ranks agents, or saved ones by their paths, by what the data say of them, with bootstrap intervals over episodes.

    `criterion="fitted_q"` is the value of first states by fitted Q evaluation. The others use the agents' own critics:
    `initial_value` is their value of first states. `soft_opc` is how much higher they value the share `success` of the
    episodes with the highest returns than all. `td_error` is their squared temporal difference, where less is better.
    With `truth_episodes`, the candidates are evaluated too, and the result says how well the criterion ranked them.
    """
    check(candidates, data, criterion, gamma, success)
    level, truth_episodes = parse_confidence(level, "level"), parse_steps(truth_episodes, "truth_episodes", least=0)
    updates, seed = parse_steps(updates, "updates", least=0), parse_seed(seed)
    terms, returns, names, discounts = [], [], [], set()
    for number, candidate in enumerate(candidates):
        agent = candidate if isinstance(candidate, Agent) else load(candidate, device="cpu", trust=trust)
        names.append(str(candidate) if agent is not candidate else f"{number}: {agent.config.name}")
        discounts.add(float(agent.config.algorithm.gamma))
        if criterion == "fitted_q":
            fitted = fitted_q(agent, data, deterministic=deterministic, gamma=gamma, updates=updates, seed=seed)
            terms.append([first_states(fitted.state_values, data)])
        else:
            terms.append(own_terms(agent, data, criterion, success))
        if truth_episodes:
            returns.append(agent.evaluate(truth_episodes, deterministic=deterministic, seed=seed).mean)
        if agent is not candidate:
            agent.close()
    if len(discounts) > 1 and gamma is None:
        raise ConfigError(
            f"the candidates learned with different discounts, {', '.join(f'{one:g}' for one in sorted(discounts))}, so that their "
            "values do not compare: use criterion='fitted_q' with gamma="
        )
    standing = compare(terms, higher_is_better=criterion != "td_error", level=level, seed=seed)
    found = ranked(names, standing, criterion, level, np.array(returns))
    if criterion not in ("fitted_q", "initial_value"):
        return found
    low, high = possible_values(data.reward, discounts.pop() if gamma is None else gamma)
    outside = (path for path, value in zip(found.paths, found.estimates, strict=True) if not low <= value <= high)
    return replace(found, impossible=tuple(outside))


def possible_values(rewards: np.ndarray, gamma: float) -> tuple[float, float]:
    """Returns the smallest and largest discounted sum of such rewards, over episodes of any length."""
    least, most = min(float(rewards.min()), 0.0), max(float(rewards.max()), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.nan_to_num(np.array([least, most]) / (1 - gamma), nan=0.0, posinf=np.inf, neginf=-np.inf)
    return float(bounds[0]), float(bounds[1])


def check(
    candidates: Sequence[Candidate], data: Dataset, criterion: Criterion, gamma: float | None, success: float
) -> None:
    """Refuses invalid arguments of `rank` before anything is loaded."""
    if not isinstance(candidates, list | tuple):
        raise ConfigError(f"candidates={shortened(candidates)} must be a list of agents, or of paths of saved ones")
    for number, candidate in enumerate(candidates):
        if not isinstance(candidate, Agent):
            parse_path(candidate, f"candidates[{number}]")
    if not isinstance(data, Dataset):
        raise ConfigError(f"data={shortened(data)} is not a Dataset: open it, Dataset.open(path)")
    if len(candidates) < 2:
        raise ConfigError(
            f"ranking needs at least two agents, or paths of saved ones: candidates names {len(candidates)}"
        )
    gamma = None if gamma is None else parse_share(gamma, "gamma")
    if criterion not in CRITERIA:
        raise ConfigError(f"criterion={criterion!r} is not known: use {', '.join(CRITERIA)}")
    if criterion != "fitted_q" and gamma is not None:
        raise ConfigError(
            f"gamma={gamma:g} with criterion={criterion!r}: agents' own values have their own discount; leave gamma out, or use "
            "'fitted_q'"
        )
    parse_confidence(success, "success")
    if len(data.returns) < 2:
        raise ConfigError("the dataset has one episode: intervals over episodes need at least two, better a hundred")
    absent = next((path for path in candidates if not isinstance(path, Agent) and not Path(path).exists()), None)
    if absent is not None:
        raise ConfigError(
            f"candidates names {str(absent)!r}, which does not exist: give agents, or paths of saved ones"
        )


def own_terms(agent: Agent, data: Dataset, criterion: Criterion, success: float) -> list[Term]:
    """Returns the sums over each episode that a criterion averages, from the agent's own values."""
    values, episodes = critic_values(agent, data), data.episodes()
    if criterion == "initial_value":
        return [first_states(values.state_values, data)]
    numbers = values.td_errors**2 if criterion == "td_error" else values.action_values
    total, length = np.add.reduceat(numbers, episodes.start), episodes.length.astype(np.float64)
    if criterion == "td_error":
        return [Term(total, length)]
    good = successes(data.returns, success)
    return [Term(total * good, length * good), Term(total, length)]


def successes(returns: np.ndarray, share: float) -> np.ndarray:
    """Returns a mask of the best share of the episodes, with ties; refuses data in which that is all of them."""
    good = returns >= np.quantile(returns, 1 - share, method="higher")
    if good.all():
        raise ConfigError(
            f"all {len(returns)} episodes have a return of {returns.max():g} or tie with the best {share:.0%}: soft_opc needs "
            "better and worse episodes; use another criterion or other data"
        )
    return good


def first_states(values: np.ndarray, data: Dataset) -> Term:
    first = values[data.episodes().start]
    return Term(first, np.ones_like(first))


def ranked(names: list[str], standing: Standing, criterion: Criterion, level: float, truth: np.ndarray) -> Ranking:
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
