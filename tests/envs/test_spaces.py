"""Gymnasium spaces become plain data; what cannot be learned from is refused with advice."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from rl_training.envs.spaces import convert_space, convert_spec

FLOATS = spaces.Box(-1.0, 2.0, (2,), np.float32)
INF = float("inf")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (FLOATS, Box((2,), (-1.0, -1.0), (2.0, 2.0), "float32")),
        (spaces.Box(-1.0, 2.0, (2,), np.float64), Box((2,), (-1.0, -1.0), (2.0, 2.0), "float32")),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), Box((1,), (-INF,), (INF,), "float32")),
        (
            spaces.Box(np.array([0, -3]), np.array([9, 4]), dtype=np.int64),
            Box((2,), (0.0, -3.0), (9.0, 4.0), "float32"),
        ),
        (spaces.Box(-1.0, 1.0, (), np.float32), Box((), (-1.0,), (1.0,), "float32")),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float32), Box((2, 3), (-1.0,) * 6, (1.0,) * 6, "float32")),
        (spaces.Box(0, 255, (2, 2, 1), np.uint8), Box((2, 2, 1), (0.0,) * 4, (255.0,) * 4, "uint8")),
        (spaces.Box(0, 255, (3,), np.uint8), Box((3,), (0.0,) * 3, (255.0,) * 3, "float32")),
        (spaces.Discrete(4), Discrete(4)),
        (spaces.Discrete(4, start=-2), Discrete(4, -2)),
        (spaces.MultiDiscrete([3, 2]), MultiDiscrete((3, 2))),
        (spaces.MultiBinary(5), MultiBinary(5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("role", ["observation", "action"])
def test_supported_spaces(space: gym.Space, expected: object, role: str) -> None:
    assert convert_space(space, role=role) == expected


def test_dict_observations_keep_every_leaf() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2, 3), np.uint8), "speed": FLOATS, "gear": spaces.Discrete(5)})
    converted = convert_space(space, role="observation")
    assert isinstance(converted, Dict)
    assert set(converted.spaces) == {"image", "speed", "gear"}
    assert converted.spaces["gear"] == Discrete(5)


@pytest.mark.parametrize(
    ("space", "role", "words"),
    [
        (spaces.Tuple([FLOATS, FLOATS]), "observation", "observation space Tuple.*FlattenObservation"),
        (spaces.Text(5), "observation", "observation space Text.*FlattenObservation"),
        (spaces.Sequence(FLOATS), "observation", "observation space Sequence.*not supported"),
        (spaces.MultiBinary([2, 2]), "observation", "MultiBinary.*not supported"),
        (spaces.MultiDiscrete([[2, 2], [2, 2]]), "action", "is not supported: use Box, Discrete"),
        (spaces.MultiDiscrete([2, 2], start=[1, 1]), "action", "does not count from 0: shift it in a wrapper"),
        (spaces.Dict({"move": FLOATS}), "action", "action space Dict.*use Box, Discrete, MultiDiscrete or MultiBinary"),
        (spaces.Tuple([FLOATS]), "action", "action space Tuple.*use Box"),
        (spaces.Dict({"a": spaces.Dict({"b": FLOATS})}), "observation", "'a' is nested.*flatten.*one level"),
        (spaces.Dict({"a": spaces.Tuple([FLOATS])}), "observation", "'a' is nested.*flatten.*one level"),
        (spaces.Dict({"a": spaces.Text(5)}), "observation", "Text.*not supported"),
        (spaces.Dict({"action_mask": spaces.MultiBinary(3)}), "observation", "at least one key besides 'action_mask'"),
        (spaces.Dict({}), "observation", "at least one key besides 'action_mask'"),
    ],
    ids=str,
)
def test_refused_spaces(space: gym.Space, role: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert_space(space, role=role)


def masked(mask: gym.Space) -> spaces.Dict:
    return spaces.Dict({"obs": FLOATS, "action_mask": mask})


@pytest.mark.parametrize(
    ("mask", "action"),
    [
        (spaces.MultiBinary(3), spaces.Discrete(3)),
        (spaces.Box(0, 1, (3,), np.int8), spaces.Discrete(3, start=1)),
        (spaces.MultiBinary(5), spaces.MultiDiscrete([3, 2])),
    ],
)
def test_masks_that_fit(mask: gym.Space, action: gym.Space) -> None:
    found = convert_spec(masked(mask), action).obs
    assert isinstance(found, Dict)
    assert "action_mask" in found.spaces


@pytest.mark.parametrize(
    ("mask", "action", "words"),
    [
        (spaces.MultiBinary(4), spaces.Discrete(3), "has 4 entries.*it needs 3"),
        (spaces.Box(0, 1, (3,), np.int8), spaces.MultiDiscrete([3, 2]), "has 3 entries.*it needs 5"),
        (spaces.MultiBinary(2), FLOATS, "only Discrete and MultiDiscrete actions can be masked"),
        (spaces.MultiBinary(2), spaces.MultiBinary(2), "only Discrete and MultiDiscrete actions can be masked"),
        (spaces.Discrete(3), spaces.Discrete(3), "'action_mask' is Discrete.*make it MultiBinary"),
    ],
)
def test_masks_that_do_not_fit(mask: gym.Space, action: gym.Space, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert_spec(masked(mask), action)
