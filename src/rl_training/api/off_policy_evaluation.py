"""Off-policy evaluation and ranking of agents: checks the arguments, loads saved agents, and calls `evaluation`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rl_base.evaluation.intervals import Method
from rl_base.evaluation.report import Report
from rl_training.api.agent import Agent, load
from rl_training.api.data_source import check_fit, open_data
from rl_training.config import ConfigError
from rl_training.config.parsing import (
    parse_confidence,
    parse_flag,
    parse_path,
    parse_seed,
    parse_share,
    parse_steps,
    shortened,
)
from rl_training.data import Dataset
from rl_training.evaluation.critic_values import CriticValues, critic_values
from rl_training.evaluation.dataset_evaluation import evaluate_on_dataset
from rl_training.evaluation.fqe_values import FittedQ, TargetPolicy, fit_q
from rl_training.evaluation.model_selection import (
    CRITERIA,
    Criterion,
    Ranking,
    critic_terms,
    first_states,
    rank_by_terms,
)
from rl_training.experience import ReplaySettings
from rl_training.experience.reward_units import RETURN_RANGE
from rl_training.models import RecurrentPolicy

Candidate = Agent | str | Path


def off_policy(
    agent: Agent,
    data: Dataset,
    *,
    deterministic: bool = False,
    gamma: float | None = None,
    updates: int = 5_000,
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Estimates the agent's expected return from logged data by every estimator, with intervals and diagnostics.

    Episodes of one step are treated as contexts and decisions; longer ones get values from fitted Q evaluation, trained
    on each half of the episodes for the other with `updates` each (0: only importance sampling is used). `gamma` is the
    agent's own unless given. If the data do not suffice, the report has no estimates, and its `refusal` says why.
    Raises ConfigError if an argument is invalid or the agent is recurrent.
    """
    target = checked_target(agent, data, gamma, deterministic)
    updates, seed = parse_steps(updates, "updates", least=0), parse_seed(seed)
    level = parse_confidence(level, "level")
    if method not in get_args(Method):
        raise ConfigError(f"method={shortened(method)} is not one of {', '.join(get_args(Method))}")
    return evaluate_on_dataset(target, data, updates=updates, level=level, method=method, seed=seed)


def fitted_q(
    agent: Agent,
    data: Dataset,
    *,
    deterministic: bool = False,
    gamma: float | None = None,
    updates: int = 5_000,
    seed: int = 0,
) -> FittedQ:
    """Estimates the agent's values at every row of the data, and its expected return, by a Q model fitted to the data.

    Needs no logged probabilities, but has model error. `gamma` is the agent's own unless given. Raises ConfigError if
    an argument is invalid or the agent is recurrent.
    """
    target = checked_target(agent, data, gamma, deterministic)
    return fit_q(target, data, parse_steps(updates, "updates", least=0), parse_seed(seed))


def checked_target(agent: Agent, data: Dataset, gamma: float | None, deterministic: bool) -> TargetPolicy:
    """Checks the arguments and returns a copy of the agent's policy on the CPU with its discount.

    `gamma` is the agent's own unless given. Raises ConfigError if an argument is invalid, the data have other spaces,
    or the agent is recurrent.
    """
    if not isinstance(agent, Agent):
        raise ConfigError(f"agent={shortened(agent)} is not an agent: load it, rl_training.load(path)")
    if not isinstance(data, Dataset):
        raise ConfigError(f"data={shortened(data)} is not a Dataset: open it, Dataset.open(path)")
    check_fit(data, agent.spec, agent.config.env.id)
    policy = copy.deepcopy(agent.algorithm.policy).to("cpu")
    if isinstance(policy, RecurrentPolicy):
        raise ConfigError(f"{agent.config.name} acts by memory, which off-policy evaluation does not rebuild from data")
    discount = float(agent.config.algorithm.gamma) if gamma is None else parse_share(gamma, "gamma")
    return TargetPolicy(policy, agent.spec, discount, parse_flag(deterministic, "deterministic"))


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
    """Ranks agents, or paths of saved ones, by a criterion on logged data, with bootstrap intervals over episodes.

    `criterion="fitted_q"` is the value of first states by fitted Q evaluation. The others use the agents' own critics:
    `initial_value` is their value of first states. `soft_opc` is how much higher they value the share `success` of the
    episodes with the highest returns than all. `td_error` is their squared temporal difference, where less is better.
    With `truth_episodes`, the candidates are evaluated too, and the result says how well the criterion ranked them.
    `trust` names packages whose code saved agents may use. Raises ConfigError if an argument is invalid.
    """
    check_ranking(candidates, data, criterion, gamma, success)
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
            terms.append(critic_terms(values_by_critics(agent, data), data, criterion, success))
        if truth_episodes:
            returns.append(agent.evaluate(truth_episodes, deterministic=deterministic, seed=seed).mean)
        if agent is not candidate:
            agent.close()
    if len(discounts) > 1 and gamma is None:
        raise ConfigError(
            f"the candidates learned with different discounts, {', '.join(f'{one:g}' for one in sorted(discounts))}, so that their "
            "values do not compare: use criterion='fitted_q' with gamma="
        )
    return rank_by_terms(
        names,
        terms,
        data,
        criterion=criterion,
        gamma=discounts.pop() if gamma is None else gamma,
        level=level,
        seed=seed,
        returns=returns,
    )


def check_ranking(
    candidates: Sequence[Candidate], data: Dataset, criterion: Criterion, gamma: float | None, success: float
) -> None:
    """Raises ConfigError if an argument of `rank` is invalid, before anything is loaded."""
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


def values_by_critics(agent: Agent, data: Dataset) -> CriticValues:
    """Returns the values of every row of the data by the agent's own critics, in units of the environment's rewards.

    Raises ConfigError if the agent learned from shifted rewards, or the data have other spaces.
    """
    check_fit(data, agent.spec, agent.config.env.id)
    experience, dataset = agent.config.experience, agent.dataset
    by_returns = isinstance(experience, ReplaySettings) and experience.reward_scale == RETURN_RANGE
    if by_returns and dataset is None:
        dataset = open_data(agent.config, trust=agent.trust)
    units = experience.rewards(dataset)
    if units.shift:
        raise ConfigError(
            f"{agent.config.name} learned from rewards that were shifted by {units.shift:g}, so that its own values are no returns: "
            "use criterion='fitted_q'"
        )
    return critic_values(agent.algorithm, data, units.scale)
