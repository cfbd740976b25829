"""The records that pass through the loop: steps from environments or data, batches for losses, results of an update."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from rl_training.core.tree import Tree

Metrics = dict[str, Tensor]  # 0-dim tensors; moved to the host only when logged
Rows = dict[str, Tensor]  # one entry per row of a batch


class Transition(NamedTuple):
    """A step of an environment, or a batch of steps whose fields have the same leading dimensions."""

    obs: Tree
    action: Tensor  # of a team, a dict with a tensor [..., agents] per group
    log_prob: Tensor  # of `action` under the policy that took it; of a team [..., agents]
    reward: Tensor  # of a team, what it earns together
    next_obs: Tree  # the true successor, also at the end of an episode
    terminated: Tensor  # no value after this step: do not bootstrap
    truncated: Tensor  # the episode was cut here: bootstrap from next_obs
    valid: Tensor  # False where a backend reset an environment instead of stepping it: never learned from
    columns: Rows  # what the algorithm declares, besides


class Column(NamedTuple):
    """The name, shape, dtype and source of a value that an algorithm needs with every step, beside a Transition.

    A replay, dataset or rollout that cannot provide it raises a ValueError.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    # policy: what the acting policy gave (log_prob, first, memory0 ...), or the data say it gave.
    # episode: follows from later steps (next_action, return_to_go, steps_left); shape and type are its own.
    # env: what the environment gives with every step (of a team), or a dataset has besides (its extras).
    source: Literal["policy", "episode", "env"] = "env"


class Weighted(Protocol):
    """The protocol of batches: named tuples of tensors with one entry per row, one of which is `weight`."""

    @property
    def weight(self) -> Tensor:
        """Returns a tensor of the weight of every row; 0 for rows that must not count."""
        ...

    def _replace(self, *, weight: Tensor = ...) -> Self: ...


BatchT = TypeVar("BatchT", bound=Weighted)


class StepBatch(NamedTuple):
    """A batch for losses from a replay or dataset; a row spans up to n steps, with their discounted rewards summed."""

    obs: Tree
    action: Tensor
    reward: Tensor  # already n-step
    discount: Tensor  # already n-step; 0 where terminated
    next_obs: Tree  # after n steps
    weight: Tensor
    columns: Rows


class RolloutBatch(NamedTuple):
    """A batch made from a rollout for actor-critic losses: steps with advantages and targets for the value function."""

    obs: Tree
    action: Tensor
    log_prob: Tensor  # of `action` under the policy that took it
    advantage: Tensor
    value: Tensor  # before the update
    target: Tensor  # for the value: the return as it is estimated
    weight: Tensor
    columns: Rows


class Loss(NamedTuple):
    """The result of a loss function: the 0-dim value to minimise, metrics to log, and a dict of tensors [batch]."""

    value: Tensor  # to minimise
    metrics: Metrics
    rows: Rows = {}  # what others need of every row: how surprising it was (`priority`), log-probabilities


class Step(NamedTuple):
    """The result of one update: metrics to log, and a dict of tensors [batch], such as new priorities."""

    metrics: Metrics
    rows: Rows = {}  # of a batch from experience that samples by it, `priority`
