"""Values of a policy at the rows of a dataset, by fitted Q evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from rl_training.algorithms.fqe import FQEAlgorithm, FQEConfig
from rl_training.core import Discrete, Policy, Spec, Transition
from rl_training.core.arguments import ConfigError
from rl_training.data import Dataset
from rl_training.experience import LoggedSteps
from rl_training.runtime import Phase, Streams, Trainer

CHUNK = 8_192  # rows looked at together
DRAWS = 8  # actions per state that a continuous policy's value is averaged over


class TargetPolicy(NamedTuple):
    """A policy to evaluate, on the CPU, with its environment's spec and the discount that defines its return."""

    policy: Policy
    spec: Spec  # of its environment; the policy may see only some of the observations
    gamma: float
    deterministic: bool = False  # True: evaluate its most likely actions


class FittedQ(NamedTuple):
    """Values of a policy at every row of a dataset, by a model that was fitted to this dataset."""

    action_values: np.ndarray  # of the actions taken
    state_values: np.ndarray
    value: float  # the mean over episodes' first states: the expected discounted return, if the model is right


def fit_q(target: TargetPolicy, data: Dataset, updates: int, seed: int) -> FittedQ:
    """Fits the policy's Q function to the data and returns its values at every row and the value of the policy.

    `updates` is the number of updates; `seed` gives the random numbers.
    """
    q, v = values_of(fit(target, data, updates, seed), data)
    return FittedQ(q, v, float(v[data.episodes().start].mean()))


def cross_fitted_q(target: TargetPolicy, data: Dataset, updates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns Q and V of every row, [rows] each, by models that were fitted to the other half of the episodes.

    Raises ConfigError if the data have fewer than two episodes.
    """
    episodes = data.episodes()
    half = np.random.default_rng(seed).permutation(len(episodes.stop)) % 2
    q, v = np.zeros(len(data)), np.zeros(len(data))
    for side in (0, 1):
        inside = np.flatnonzero(half == side)
        if not len(inside) or len(inside) == len(half):
            raise ConfigError("cross-fitting needs at least two episodes: give more data, or updates=0")
        others = data.select(np.flatnonzero(half != side))
        model = fit(target, others, updates, seed + side)
        rows = np.flatnonzero(half[episodes.index_of(np.arange(len(data)))] == side)
        q[rows], v[rows] = values_of(model, data.select(inside))
    return q, v


def fit(target: TargetPolicy, data: Dataset, updates: int, seed: int) -> FQEAlgorithm:
    """Trains a Q function of the policy on the data by fitted Q evaluation, for `updates` updates, and returns it."""
    streams = Streams.from_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.network)
        config = FQEConfig(gamma=target.gamma, deterministic=target.deterministic)
        model = FQEAlgorithm(config, target.spec, target.policy)
    logged = LoggedSteps(data, target.policy.to_env, gamma=target.gamma, seed=streams.data)
    threads = torch.get_num_threads()
    Trainer(model, [Phase(logged, None, updates)], {"data": logged}, seed=streams.training, threads=threads).run()
    return model


@torch.no_grad()
def values_of(model: FQEAlgorithm, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Returns the model's Q of the actions taken and its V of the states, [rows] each."""
    exact = isinstance(model.spec.action, Discrete) or model.config.deterministic
    q, v = [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for steps in chunks(data):
            q.append(model.q(model.network, steps.obs, model.policy.to_env.inverse(steps.action)))
            v.append(torch.stack([model.values(steps.obs) for _ in range(1 if exact else DRAWS)]).mean(0))
    return torch.cat(q).double().numpy(), torch.cat(v).double().numpy()


def chunks(data: Dataset) -> Iterator[Transition]:
    """Returns an iterator over all rows of the dataset, in order, `CHUNK` rows at a time."""
    return (data.take(np.arange(start, min(start + CHUNK, len(data)))) for start in range(0, len(data), CHUNK))
