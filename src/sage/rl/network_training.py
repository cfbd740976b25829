"""Training of network policies: rl_training learns from a log, and held-out tasks measure the confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, predict_rewards, pseudo_rewards
from sage.evidence.reward import RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.policies.cells import Cells
from sage.policies.margin_bins import measure_bins
from sage.policies.network_policy import NetworkPolicy, encode
from sage.policies.policy import RoutingPolicy
from sage.rl.training_record import training_of

if TYPE_CHECKING:
    from rl_training import Dataset
    from rl_training.core import Policy

FIT_FRACTION = 0.75  # of the tasks; the rest calibrate

Learn = Callable[["Dataset"], "Policy"]
"""Learns from a one-step dataset and returns the policy that acts."""


def learn_network(
    data: RoutingData,
    learn: Learn,
    *,
    name: str,
    static: RoutingPolicy | None,
    weights: RewardWeights,
    seed: int,
    **settings: float | int | str,
) -> NetworkPolicy:
    """Fits a network on three quarters of the tasks, and measures the gains of its choices on the others."""
    cells = Cells.of(data.contexts)
    cell = cells.index(data.contexts)
    incumbent = incumbent_of(data, static)
    log = bandit_log(data, cells, weights)
    values = pseudo_rewards(log, predict_rewards(log, seed))
    counts = np.zeros((len(cells), len(data.models)))
    np.add.at(counts, (cell, incumbent.choice), 1)
    fit, check = data.split_by_task(FIT_FRACTION, seed)
    policy = NetworkPolicy(
        name=name,
        models=data.models,
        training=training_of(data, name, data.measured(weights).version, seed=seed, against=incumbent.name, **settings),
        cells=cells,
        layers=as_layers(learn(one_step_dataset(fit, cells, weights))),
        tried=np.bincount(fit.action, minlength=len(data.models)) > 0,
        incumbent=counts.argmax(axis=1),
        settled=counts.max(axis=1) == counts.sum(axis=1),
        edges=np.zeros(0),
        mean=np.full(1, np.nan),
        deviation=np.full(1, np.nan),
    )
    held_out = np.isin(data.decision_id, check.decision_id)
    return calibrated(policy, check, values[held_out], incumbent.choice[held_out])


def one_step_dataset(data: RoutingData, cells: Cells, weights: RewardWeights) -> Dataset:
    """Returns the rows as a dataset of rl_training in which every decision is an episode of one step."""
    from rl_training import Dataset
    from rl_training.core import Box, Discrete, Spec
    from rl_training.data import Provenance

    inputs = encode(cells, data.contexts)
    width = inputs.shape[1]
    return Dataset.from_arrays(
        obs=inputs,
        action=data.action,
        reward=data.reward(weights),
        terminated=np.ones(len(data), bool),
        truncated=np.zeros(len(data), bool),
        log_prob=np.log(data.propensity[np.arange(len(data)), data.action]),
        spec=Spec(Box((width,), (-np.inf,) * width, (np.inf,) * width), Discrete(len(data.models))),
        provenance=Provenance(method="logged routing decisions", synthetic=data.source == "synthetic"),
    )


def as_layers(policy: Policy) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Returns weight and bias of every layer as NumPy arrays, with which a server scores models without PyTorch."""
    from rl_training.models import dense_layers

    layers = dense_layers(policy)
    assert all(layer.activation == "relu" for layer in layers[:-1])  # as `forward` has it
    return tuple((layer.weight.cpu().numpy(), layer.bias.cpu().numpy()) for layer in layers)


def calibrated(policy: NetworkPolicy, data: RoutingData, values: np.ndarray, usual: np.ndarray) -> NetworkPolicy:
    """Returns the policy with the gains of its choices by margin, measured on `data` that it has not seen.

    `values` [n, models] are pseudo-rewards, `usual` [n] the incumbent's choices.
    """
    choice = policy.choose(data.contexts, policy.models, data.eligible)
    rows = np.flatnonzero(choice.known & (choice.own != usual))
    gain = values[rows, choice.own[rows]] - values[rows, usual[rows]]
    margins = policy.margins(data.contexts, choice.own)[rows]
    bins, calibration = measure_bins(margins, gain, data.contexts.task_id[rows])
    return replace(
        policy,
        training=replace(policy.training, calibration=calibration or policy.training.calibration),
        edges=bins.edges,
        mean=bins.mean,
        deviation=bins.deviation,
        spread=bins.spread,
    )
