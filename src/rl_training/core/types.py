"""What flows through the loop: steps from environments or data, batches for losses, results of an update."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rl_training.core.tree import Tree

Metrics = dict[str, Tensor]  # 0-dim tensors; moved to the host only when logged


class Transition(NamedTuple):
    """One step, or any batch of steps with the same leading dimensions."""

    obs: Tree
    action: Tensor
    log_prob: Tensor  # of `action` under the policy that took it
    reward: Tensor
    next_obs: Tree  # the true successor, also at the end of an episode
    terminated: Tensor  # no value after this step: do not bootstrap
    truncated: Tensor  # the episode was cut here: bootstrap from next_obs
    valid: Tensor  # False where a backend reset an environment instead of stepping it: never learned from
    extras: dict[str, Tensor]  # declared columns some algorithms ask for


class Batch(NamedTuple):
    """What losses see; absent columns are None."""

    obs: Tree
    action: Tensor
    weight: Tensor  # 0 on rows that must not count
    extras: dict[str, Tensor]
    reward: Tensor | None = None  # already n-step
    discount: Tensor | None = None  # already n-step; 0 where terminated
    next_obs: Tree | None = None


class Step(NamedTuple):
    """The result of one update."""

    metrics: Metrics
    priority: Tensor | None = None  # how surprising each row was, for experience that samples by it
