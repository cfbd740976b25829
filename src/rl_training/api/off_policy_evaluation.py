"""Estimates of a trained agent's return from logged data, without stepping an environment."""

from __future__ import annotations

import copy
from typing import NamedTuple, get_args

import numpy as np
import torch

from rl_training.algorithms.fqe import FQEAlgorithm, FQEConfig, action_probabilities
from rl_training.api.agent import Agent
from rl_training.api.data_source import check_fit
from rl_training.config import ConfigError
from rl_training.config.parsing import parse_confidence, parse_flag, parse_seed, parse_share, parse_steps, shortened
from rl_training.core import ActionConverter, Box, Discrete, Policy, Transition
from rl_training.core.converters import EDGE
from rl_training.data import Dataset
from rl_training.evaluation import BanditLog, EpisodeLog, Report, evaluate_bandit, evaluate_episodes
from rl_training.evaluation.intervals import Method
from rl_training.experience import LoggedSteps
from rl_training.models import RecurrentPolicy
from rl_training.models.executed_actions import executed_log_prob
from rl_training.runtime import Phase, Streams, Trainer

CHUNK = 8_192  # rows looked at together
PROPENSITIES = "propensities"  # the extra column of one-step data that holds the probability of every action
DRAWS = 8  # actions per state that a continuous policy's value is averaged over


class FittedQ(NamedTuple):
    """Values of a policy at every row of a dataset, by a model that was fitted to the data."""

    action_values: np.ndarray  # of the actions taken
    state_values: np.ndarray
    value: float  # the mean over episodes' first states: the expected discounted return, if the model is right


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
    """Estimates the agent's expected return by every estimator, with intervals and diagnostics, or says why it cannot.

    Episodes of one step are contexts and decisions; longer ones get values from fitted Q evaluation, cross-fitted over
    two halves of the episodes with `updates` each (0: none, then only importance sampling is used). `gamma` is the
    agent's own unless given.
    """
    policy = checked_policy(agent, data)
    gamma, updates, deterministic, seed = checked_settings(agent, gamma, updates, deterministic, seed)
    level = parse_confidence(level, "level")
    if method not in get_args(Method):
        raise ConfigError(f"method={shortened(method)} is not one of {', '.join(get_args(Method))}")
    refusal = why_not(policy, data, deterministic)
    if refusal is not None:
        return Report("expected return per episode", "none", (), None, {}, refusal)
    assert data.log_prob is not None
    behaviour, rows = np.exp(data.log_prob.astype(np.float64)), np.arange(len(data))
    if isinstance(data.spec.action, Discrete) and len(data.episodes().stop) == len(data):
        return one_step(policy, data, behaviour, deterministic, level, method, seed)
    episodes = data.episodes().index_of(rows)
    log = EpisodeLog(
        episodes=episodes,
        rewards=data.reward,
        propensities=behaviour,
        gamma=gamma,
        densities=isinstance(data.spec.action, Box),
    )
    target = probabilities_of_taken(policy, data, agent, deterministic)
    values = cross_fitted(agent, policy, data, gamma, updates, deterministic, seed) if updates else None
    return evaluate_episodes(log, target, values=values, level=level, method=method, seed=seed)


def fitted_q(
    agent: Agent,
    data: Dataset,
    *,
    deterministic: bool = False,
    gamma: float | None = None,
    updates: int = 5_000,
    seed: int = 0,
) -> FittedQ:
    """Returns the agent's values by a model fitted to the data; needs no logged probabilities, but has model error."""
    policy = checked_policy(agent, data)
    gamma, updates, deterministic, seed = checked_settings(agent, gamma, updates, deterministic, seed)
    model = fit(agent, policy, data, gamma, updates, deterministic, seed)
    q, v = values_of(model, data)
    return FittedQ(q, v, float(v[data.episodes().start].mean()))


def checked_settings(
    agent: Agent, gamma: object, updates: object, deterministic: object, seed: object
) -> tuple[float, int, bool, int]:
    """Checks and returns the settings of an estimate; `gamma` is the agent's own unless given."""
    discount = float(agent.config.algorithm.gamma) if gamma is None else parse_share(gamma, "gamma")
    flag = parse_flag(deterministic, "deterministic")
    return discount, parse_steps(updates, "updates", least=0), flag, parse_seed(seed)


def checked_policy(agent: Agent, data: Dataset) -> Policy:
    if not isinstance(agent, Agent):
        raise ConfigError(f"agent={shortened(agent)} is not an agent: load it, rl_training.load(path)")
    if not isinstance(data, Dataset):
        raise ConfigError(f"data={shortened(data)} is not a Dataset: open it, Dataset.open(path)")
    check_fit(data, agent.spec, agent.config.env.id)
    policy = copy.deepcopy(agent.algorithm.policy).to("cpu")
    if isinstance(policy, RecurrentPolicy):
        raise ConfigError(f"{agent.config.name} acts by memory, which off-policy evaluation does not rebuild from data")
    return policy


def why_not(policy: Policy, data: Dataset, deterministic: bool) -> str | None:
    """Returns the reason why the data's rows cannot be weighted by the policy's probabilities; None if they can."""
    if data.log_prob is None:
        return (
            "the dataset does not say with what probability its actions were taken (log_prob): log it, or use "
            "evaluation.fitted_q, which needs none and can be wrong"
        )
    if not isinstance(data.spec.action, Box | Discrete):
        return f"{type(data.spec.action).__name__} actions are not supported: use Discrete or Box"
    clipped: np.ndarray = np.zeros(len(data), bool)
    if isinstance(data.spec.action, Box):
        if deterministic or not hasattr(policy, "distribution"):
            return (
                "a deterministic policy gives continuous actions no density: evaluate with deterministic=False, or use "
                "evaluation.fitted_q"
            )
        if policy.to_env.rounds:
            return "actions are rounded to whole numbers, which have no density: use evaluation.fitted_q"
        if (refusal := why_not_by_bounds(policy, data)) is not None:
            return refusal
        clipped = np.any(near(data.action, policy.to_env)[1], axis=-1)
    if len(rows := np.flatnonzero(np.isnan(data.log_prob))):
        what = f"log_prob is unknown (NaN) in {len(rows):,} of {len(data):,} rows, first in row {rows[0]}"
        if clipped[rows].all():
            what += (
                ", all with actions that were clipped to a bound: log the logarithm of the probability of being clipped "
                "there, as make_data does (older versions did not: make the data again)"
            )
        return f"{what}; evaluation.fitted_q needs none and can be wrong"
    return None


def why_not_by_bounds(policy: Policy, data: Dataset) -> str | None:
    """Returns the reason why actions at or beyond a bound forbid weighting by probabilities; None if they do not."""
    assert isinstance(data.spec.action, Box)
    assert data.log_prob is not None
    outside, at = near(data.action, policy.to_env)
    if policy.squashed and len(rows := np.flatnonzero(outside.any(-1))):
        return (
            f"the action of row {rows[0]} is outside its bounds, where this policy never acts: log actions as the environment "
            "took them, with the probability of being clipped, or use evaluation.fitted_q"
        )
    own = near(data.action, ActionConverter(data.spec.action, squashed=False))[1]
    if not data.provenance.spec_inferred and len(rows := np.flatnonzero((own != at).any(-1))):
        return (
            f"the action of row {rows[0]} is at a bound of the data's actions and not of the agent's, or the other way round: use "
            "data of an environment with the same bounds, or evaluation.fitted_q"
        )
    if len(rows := np.flatnonzero(at.all(-1) & (data.log_prob > 1e-5))):
        return (
            f"log_prob is {data.log_prob[rows[0]]:g} in row {rows[0]}, whose action is at its bounds: there it must be the "
            "logarithm of the probability of being clipped, which is at most 0, and not that of a density"
        )
    return None


def near(action: np.ndarray, convert: ActionConverter) -> tuple[np.ndarray, np.ndarray]:
    """Returns two masks of action components, in the environment's units: outside of their bounds, and at a bound."""
    low, high = convert.low.numpy(), convert.high.numpy()
    margin = np.where(np.isfinite(high - low), EDGE * (high - low) / 2, 0)
    action = action.reshape(len(action), -1)
    outside = (action < low - margin) | (action > high + margin)
    return outside, ~outside & ((action <= low + margin) | (action >= high - margin))


@torch.no_grad()
def one_step(
    policy: Policy, data: Dataset, behaviour: np.ndarray, deterministic: bool, level: float, method: Method, seed: int
) -> Report:
    assert isinstance(data.spec.action, Discrete)
    actions = data.action - data.spec.action.start
    num = data.spec.action.num
    if PROPENSITIES in data.extras:  # of all actions: then it is known which ones had no chance
        propensities = np.asarray(data.extras[PROPENSITIES], np.float64)
    else:
        propensities = np.full((len(data), num), np.nan)
        propensities[np.arange(len(data)), actions] = behaviour
    target = np.concatenate(
        [action_probabilities(policy, steps.obs, num, deterministic).double().numpy() for steps in chunks(data)]
    )
    leaves = data.obs.values() if isinstance(data.obs, dict) else [data.obs]
    features = np.concatenate([np.asarray(leaf, np.float64).reshape(len(data), -1) for leaf in leaves], 1)
    log = BanditLog(actions=actions, rewards=data.reward, propensities=propensities, features=features)
    return evaluate_bandit(log, target / target.sum(1, keepdims=True), level=level, method=method, seed=seed)


@torch.no_grad()
def probabilities_of_taken(policy: Policy, data: Dataset, agent: Agent, deterministic: bool) -> np.ndarray:
    """Returns the policy's probability of every logged action; of continuous ones as `executed_log_prob` measures them."""
    space = agent.spec.action
    parts = []
    for steps in chunks(data):
        action = policy.to_env.inverse(steps.action)
        if isinstance(space, Discrete):
            table = action_probabilities(policy, steps.obs, space.num, deterministic)
            parts.append(table.gather(-1, action.unsqueeze(-1)).squeeze(-1).double())
        else:
            log_prob = executed_log_prob(policy, steps.obs, action)
            assert log_prob is not None
            parts.append(log_prob.exp())
    taken = torch.cat(parts).numpy()
    return np.minimum(taken, 1.0) if isinstance(space, Discrete) else taken


def cross_fitted(
    agent: Agent, policy: Policy, data: Dataset, gamma: float, updates: int, deterministic: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns Q and V of every row, by a model that was fitted to the other half of the episodes."""
    episodes = data.episodes()
    half = np.random.default_rng(seed).permutation(len(episodes.stop)) % 2
    q, v = np.zeros(len(data)), np.zeros(len(data))
    for side in (0, 1):
        inside = np.flatnonzero(half == side)
        if not len(inside) or len(inside) == len(half):
            raise ConfigError("cross-fitting needs at least two episodes: give more data, or updates=0")
        others = data.select(np.flatnonzero(half != side))
        model = fit(agent, policy, others, gamma, updates, deterministic, seed + side)
        rows = np.flatnonzero(half[episodes.index_of(np.arange(len(data)))] == side)
        q[rows], v[rows] = values_of(model, data.select(inside))
    return q, v


def fit(
    agent: Agent, policy: Policy, data: Dataset, gamma: float, updates: int, deterministic: bool, seed: int
) -> FQEAlgorithm:
    """Runs fitted Q evaluation of the policy on the data, for `updates` updates, and returns the model."""
    streams = Streams.from_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.network)
        config = FQEConfig(gamma=gamma, deterministic=deterministic)
        model = FQEAlgorithm(config, agent.spec, policy)
    logged = LoggedSteps(data, policy.to_env, gamma=gamma, seed=streams.data)
    threads = torch.get_num_threads()
    Trainer(model, [Phase(logged, None, updates)], {"data": logged}, seed=streams.training, threads=threads).run()
    return model


@torch.no_grad()
def values_of(model: FQEAlgorithm, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Returns Q of the actions taken and V of the states, for every row."""
    exact = isinstance(model.spec.action, Discrete) or model.config.deterministic
    q, v = [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for steps in chunks(data):
            q.append(model.q(model.network, steps.obs, model.policy.to_env.inverse(steps.action)))
            v.append(torch.stack([model.values(steps.obs) for _ in range(1 if exact else DRAWS)]).mean(0))
    return torch.cat(q).double().numpy(), torch.cat(v).double().numpy()


def chunks(data: Dataset) -> list[Transition]:
    return [data.take(np.arange(start, min(start + CHUNK, len(data)))) for start in range(0, len(data), CHUNK)]
