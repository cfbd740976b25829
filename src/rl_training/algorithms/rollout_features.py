"""Features of a rollout's observations and of their successors, each of which is encoded once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rl_training.core import Transition, Tree, tree_leaves, tree_map

Encode = Callable[[Tree], Tensor]
FEW, MANY = 512, 16_384  # rows encoded together on a CPU and elsewhere: all layers' outputs for them are in memory


def encode_rollout(encode: Encode, rollout: Transition, *, again: bool) -> tuple[Tensor, Tensor]:
    """Returns two tensors [time, env, features]: those of a rollout's observations, and of their true successors.

    Within an episode the successor is the next row's observation, which is encoded `again` only if that is True: where
    shapes must not depend on values, or encoding costs nothing. After a termination the features are those of the next
    episode, as no estimate uses the value of such a successor.
    """
    if again:
        return encode(rollout.obs), encode(rollout.next_obs)
    features = encode_in_parts(encode, rollout.obs, rollout.reward.shape[1])
    others = rollout.truncated | ~rollout.valid
    others[-1] = True
    following = features.roll(-1, 0)
    following[others] = encode_in_parts(encode, tree_map(lambda x: x[others], rollout.next_obs), 1)
    return features, following


def encode_in_parts(encode: Encode, obs: Tree, rows: int) -> Tensor:
    """Returns the features of observations [number, ...] that hold `rows` rows each, some hundred rows at a time."""
    leaf = next(tree_leaves(obs))
    size = max(1, (FEW if leaf.device.type == "cpu" else MANY) // rows)
    parts = [tree_map(lambda x, s=start: x[s : s + size], obs) for start in range(0, len(leaf), size)]
    return torch.cat([encode(part) for part in parts])
