"""Cascades learned by rl_training's DQN from logged episodes, kept as a table that serves without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sage.evidence.cascades.cascade_data import CascadeData
from sage.policies.cascades.cascade_features import history_codes, summaries
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.cells import Cells
from sage.rl.cascades.cascade_learning import FEWEST_TASKS, effective_tasks, mean_costs, training_of

if TYPE_CHECKING:
    from rl_training import Dataset

NET_ARCH = (64, 64)
UPDATES = 2_000
BATCH_SIZE = 256
LEARNING_RATE = 1e-3
TARGET_SHARE = 0.02  # of the difference that the target network takes over with every update


def learn_dqn(data: CascadeData, price: float, *, updates: int = UPDATES, seed: int = 0) -> LearnedCascade:
    """Learns a cascade by double DQN on the observed episodes.

    Actions that a history has in fewer than FEWEST_TASKS effective tasks count as unknown, as in fitted Q.
    """
    import torch

    from rl_training import DQN
    from rl_training.models import QPolicy

    seen = data.select(data.observed)
    cells, costs = Cells.of(seen.contexts), mean_costs(seen)
    inputs = history_inputs(seen, cells, costs)
    agent = DQN(
        dataset=episodes_dataset(seen, inputs, price),
        seed=seed,
        net_arch=NET_ARCH,
        activation_fn="relu",
        double=True,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        tau=TARGET_SHARE,
        target_update_interval=1,
        gamma=1.0,
    )
    agent.learn(total_updates=updates, progress=False)
    codes, first, history = np.unique(history_codes(seen.order, seen.verdict), return_index=True, return_inverse=True)
    obs = {"state": torch.as_tensor(inputs[first]), "action_mask": torch.ones(len(first), len(seen.models) + 1)}
    policy = agent.algorithm.policy
    assert isinstance(policy, QPolicy)
    with torch.no_grad():
        values = policy.q_values(obs).cpu().numpy().astype(np.float64)
    _, task = np.unique(seen.contexts.task_id, return_inverse=True)
    shape = (len(codes), len(seen.models) + 1)
    tasks = effective_tasks(history * shape[1] + seen.action, task[seen.episode], shape[0] * shape[1]).reshape(shape)
    return LearnedCascade(
        name="dqn",
        models=seen.models,
        training=training_of(data, "dqn", price, seed, updates=updates),
        cells=cells,
        price=price,
        codes=codes,
        values=np.where(tasks >= FEWEST_TASKS, values, -np.inf),
        weights=np.zeros((1, 4 * len(seen.models) + 4 + len(cells), shape[1])),
        mean_cost=costs,
    )


def history_inputs(data: CascadeData, cells: Cells, costs: np.ndarray) -> np.ndarray:
    """Returns the network's inputs, float32 [n, 4 * models]: accepted, rejected, unverified and taken models."""
    return summaries(data.states, cells, costs)[:, : 4 * len(data.models)].astype(np.float32)


def episodes_dataset(data: CascadeData, inputs: np.ndarray, price: float) -> Dataset:
    """Returns the episodes as a dataset of rl_training, with `inputs` [n, width] and the mask of possible actions.

    `price` is quality per dollar.
    """
    from rl_training import Dataset
    from rl_training.core import Box, Dict, Discrete, MultiBinary, Spec
    from rl_training.data import Provenance

    size, width = data.eligible.shape[1], inputs.shape[1]
    stopped = data.action == data.stop
    space = Dict({"state": Box((width,), (0.0,) * width, (1.0,) * width), "action_mask": MultiBinary(size)})
    return Dataset.from_arrays(
        obs={"state": inputs, "action_mask": data.eligible.astype(np.int8)},
        action=data.action,
        reward=data.rewards(price).astype(np.float32),
        terminated=stopped,
        truncated=np.zeros(len(stopped), bool),
        log_prob=np.log(data.taken_propensity),
        spec=Spec(space, Discrete(size)),
        provenance=Provenance(method="logged cascade episodes", synthetic=data.data_source == "synthetic"),
    )
