"""Gymnasium's spaces out of the records that `inert_pickle` makes of them."""

from __future__ import annotations

from collections import OrderedDict

import gymnasium as gym
import numpy as np

from rl_training.api.sb3.arrays import array_of, described, dtype_of, number_of
from rl_training.api.sb3.inert_pickle import Call, PickleError
from rl_training.core import Spec
from rl_training.envs.spaces import convert_spec

PACKAGES = ("gymnasium.spaces.", "gym.spaces.")  # gym: Stable-Baselines3 below 2.0
MOST_KEYS = 1_000


def space_of(record: object) -> gym.Space:
    """Returns the space that a record stands for; raises PickleError if it is no Box, choice, bits or Dict of these."""
    if not isinstance(record, Call) or not record.path.startswith(PACKAGES) or not isinstance(record.state, dict):
        raise PickleError(f"has {described(record)} where a space of gymnasium belongs")
    state = record.state
    match record.path.rpartition(".")[2]:
        case "Box":
            return box_of(state)
        case "Discrete":
            return gym.spaces.Discrete(int(number_of(state["n"])), start=int(number_of(state.get("start", 0))))
        case "MultiDiscrete":
            counts = array_of(state["nvec"]).astype(np.int64)
            return gym.spaces.MultiDiscrete(
                counts, start=array_of(state.get("start", [0] * counts.size)).reshape(counts.shape)
            )
        case "MultiBinary":
            counts = array_of(state["n"])
            return gym.spaces.MultiBinary(int(counts) if counts.ndim == 0 else [int(count) for count in counts])
        case "Dict":
            leaves = leaves_of(state["spaces"]).items()
            if any(
                isinstance(leaf, Call) and leaf.path.endswith(".Dict") for _, leaf in leaves
            ):  # which may share leaves
                raise PickleError("has a Dict space within another: only one level is supported")
            return gym.spaces.Dict(OrderedDict((str(key), space_of(leaf)) for key, leaf in leaves))  # in this order
    raise PickleError(
        f"has a {record.path.rpartition('.')[2]} space: only Box, Discrete, MultiDiscrete, MultiBinary and Dict are known"
    )


def box_of(state: dict) -> gym.spaces.Box:
    low, high, dtype = array_of(state["low"]), array_of(state["high"]), dtype_of(state["dtype"])
    if low.shape != high.shape or np.isnan(low).any() or np.isnan(high).any():
        raise PickleError(f"has a Box with bounds of the shapes {low.shape} and {high.shape}, or that are no numbers")
    return gym.spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)


def leaves_of(record: object) -> dict:
    """Returns the spaces of a Dict by key, as records, from a dict or an OrderedDict."""
    leaves = record.items if isinstance(record, Call) and record.path == "collections.OrderedDict" else record
    if isinstance(record, Call) and record.args:  # OrderedDict([(key, space), ...])
        leaves = dict(record.args[0]) if all(isinstance(pair[0], str) for pair in record.args[0]) else None
    if not isinstance(leaves, dict) or len(leaves) > MOST_KEYS:
        raise PickleError("has a Dict space whose keys cannot be read")
    return leaves


def spec_of(observation: object, action: object) -> Spec:
    """Returns the spaces of an environment as a `Spec`; raises a ValueError if one is not supported."""
    try:
        return convert_spec(space_of(observation), space_of(action))
    except (KeyError, TypeError, AssertionError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise PickleError(f"has a space that cannot be read ({type(error).__name__}: {error})") from error
