"""A search for the first number that is not finite, and the error that says where it came from."""

from __future__ import annotations

import math

import torch

from rl_training.core import Metrics, Transition, tree_leaves


class NonFiniteError(FloatingPointError):
    """An error for a number in steps or updates that is not finite; the message names the number and its place."""


def check_steps(steps: Transition, before: int, of: str = "") -> None:
    """Raises NonFiniteError if a reward or observation is not finite; ValueError if an "action_mask" allows no action.

    Messages of NonFiniteError count steps from `before`, the env steps taken earlier, and end with the text `of`, such
    as " of the evaluation".
    """
    if isinstance(steps.obs, dict) and "action_mask" in steps.obs:
        stuck = ~steps.obs["action_mask"].bool().flatten(2).any(-1) & steps.valid
        if stuck.any():
            env = stuck.nonzero()[0, 1].item()
            raise ValueError(
                f"environment {env} returned an action_mask without an allowed action: end the episode instead"
            )
    if math.isfinite(checksum(steps)):
        return
    for tree in (steps.obs, steps.next_obs):
        named = tree.items() if isinstance(tree, dict) else [("", tree)]
        leaves = {f"observation[{key!r}]" if key else "observation": leaf for key, leaf in named}
        for name, column in {"reward": steps.reward, **leaves}.items():
            wrong = (~torch.isfinite(column)).reshape(*column.shape[:2], -1).any(-1)
            if wrong.any():
                time, env = wrong.nonzero()[0].tolist()
                value = column[time, env].tolist()
                raise NonFiniteError(
                    f"the {name} of environment {env} is not finite ({value}) near step {before + time * column.shape[1]}{of}: "
                    "correct the environment, or clip what it returns"
                )


def checksum(steps: Transition) -> float:
    """Returns the sum of all rewards and float observations: not finite if one is not, in one read of the device."""
    sums = [x.sum() for x in (steps.reward, *tree_leaves((steps.obs, steps.next_obs))) if x.is_floating_point()]
    return sum(sums[1:], sums[0]).item()


def explain_failure(history: list[Metrics], place: str) -> NonFiniteError:
    """Returns an error that names the first metric that is not finite, or says that a gradient was not.

    `history` holds the metrics of the updates, oldest first; `place` is text for the message that says which updates
    they are.
    """
    for number, metrics in enumerate(history):
        for name, value in metrics.items():
            if not torch.isfinite(value):
                return NonFiniteError(
                    f"{name} became {value.item()} in update {number + 1} {place}; parameters "
                    "were left as they were before it: lower algorithm.learning_rate, set algorithm.max_grad_norm, or "
                    "normalise observations and scale rewards; look at logged data with `rl-training data lint`"
                )
    return NonFiniteError(
        f"a gradient was not finite in an update {place} although every loss was; parameters were left as "
        "they were before it: lower algorithm.learning_rate or set algorithm.max_grad_norm"
    )
