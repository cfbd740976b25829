"""Conversion of gymnasium spaces to ours; raises with advice for spaces that cannot be learned from."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec

IMAGE_DIMENSIONS = 3
MOST_CHOICES = 100_000  # of one action: each is an output of the network


def convert_box(space: gym.spaces.Box, role: str) -> Box:
    image = space.dtype == np.uint8 and len(space.shape) == IMAGE_DIMENSIONS
    dtype = "uint8" if image else "float32"
    low, high = (tuple(np.asarray(bound, np.float64).reshape(-1).tolist()) for bound in (space.low, space.high))
    return Box(tuple(space.shape), low, high, dtype, own_dtype(space, role, np.float32))


def own_dtype(space: gym.Space, role: str, ours: type) -> str | None:
    """Returns the name of an action space's dtype if it is not `ours`; None if it is, and for observation spaces.

    `role` is "observation" or "action".
    """
    return str(space.dtype) if role == "action" and space.dtype != ours else None


def check_same_spaces(spaces: Sequence[tuple[gym.Space, gym.Space]]) -> None:
    """Raises a ValueError unless all (observation space, action space) pairs, one per environment, are equal."""
    for index, pair in enumerate(spaces):
        for role, first, other in zip(("observation", "action"), spaces[0], pair, strict=True):
            if other != first:
                raise ValueError(
                    f"environment {index} has the {role} space {other}, environment 0 has {first}: the environments of one "
                    "run must have the same spaces; wrap them so that they do"
                )


def convert_space(space: gym.Space, *, role: str) -> Space:
    """Converts a gymnasium space to one of `rl_training.core`; raises a ValueError with advice if it is not supported.

    `role` is "observation" or "action": it decides which spaces are supported and names the space in errors.
    """
    match space:
        case gym.spaces.Box():
            return convert_box(space, role)
        case gym.spaces.Discrete() if role == "action" and space.n > MOST_CHOICES:
            raise ValueError(
                f"the action space {space} has more than {MOST_CHOICES} choices, and each would be an output of the "
                "network: use MultiDiscrete or Box actions"
            )
        case gym.spaces.Discrete():
            return Discrete(int(space.n), int(space.start), own_dtype(space, role, np.int64))
        case gym.spaces.MultiDiscrete() if space.start.any():
            raise ValueError(f"the {role} space {space} does not count from 0: shift it in a wrapper")
        case gym.spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return MultiDiscrete(tuple(int(n) for n in space.nvec), own_dtype(space, role, np.int64))
        case gym.spaces.MultiBinary() if isinstance(space.n, int | np.integer):
            return MultiBinary(int(space.n), own_dtype(space, role, np.int64))
        case gym.spaces.Dict() if role == "observation":
            return convert_dict(space)
    advice = (
        "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        if role == "observation"
        else ("use Box, Discrete, MultiDiscrete or MultiBinary actions")
    )
    raise ValueError(f"the {role} space {space} is not supported: {advice}")


def convert_dict(space: gym.spaces.Dict) -> Dict:
    spaces: dict[str, Space] = {}
    for key, leaf in space.spaces.items():
        if isinstance(leaf, gym.spaces.Dict | gym.spaces.Tuple):
            raise ValueError(f"the observation {key!r} is nested ({leaf}): flatten the dictionary to one level")
        spaces[key] = convert_space(leaf, role="observation")
    if set(spaces) <= {"action_mask"}:
        raise ValueError("a Dict observation needs at least one key besides 'action_mask'")
    return Dict(spaces)  # pyrefly: ignore (one level)


def convert_spec(observation_space: gym.Space, action_space: gym.Space) -> Spec:
    """Converts an environment's gymnasium spaces to a `Spec`.

    Raises a ValueError if one is not supported, or if the observation's `action_mask` does not fit the actions.
    """
    obs = convert_space(observation_space, role="observation")
    action = convert_space(action_space, role="action")
    if isinstance(obs, Dict) and "action_mask" in obs.spaces:
        check_mask(obs.spaces["action_mask"], action)
    return Spec(obs, action)


def check_mask(mask: Space, action: Space) -> None:
    if not isinstance(mask, MultiBinary | Box):
        raise ValueError(f"observation 'action_mask' is {mask}: make it MultiBinary, one entry per choice")
    if not isinstance(action, Discrete | MultiDiscrete):
        raise ValueError(
            f"observation 'action_mask' for the actions {action}: only Discrete and MultiDiscrete actions can be masked"
        )
    given, wanted = mask.size, action.size
    if given != wanted:
        raise ValueError(
            f"observation 'action_mask' has {given} entries for {action}: it needs {wanted}, one per choice"
        )
