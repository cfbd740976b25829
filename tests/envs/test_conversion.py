"""Observations arrive as float32, uint8 or int64 tensors; a wrong shape is a sentence."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from rl_training.envs.conversion import NumpyTree, stack_rows, to_tensors
from tests.envs.fakes import BACKENDS_IN_PROCESS, build

PAIR = Box((2,), (-1.0,) * 2, (1.0,) * 2)
IMAGE = Box((2, 2, 1), (0.0,) * 4, (255.0,) * 4, "uint8")
CASES: list[tuple[Space, list[Any], torch.dtype, list[Any]]] = [
    (PAIR, [np.array([0.5, 0.25]), np.array([1.0, 0.0])], torch.float32, [[0.5, 0.25], [1.0, 0.0]]),
    (PAIR, [np.array([1, 0], np.int8), np.array([0, 1], np.int8)], torch.float32, [[1.0, 0.0], [0.0, 1.0]]),
    (Box((), (0.0,), (1.0,)), [0.5, 1.0], torch.float32, [0.5, 1.0]),
    (IMAGE, [np.full((2, 2, 1), 255, np.uint8)] * 2, torch.uint8, [[[[255], [255]], [[255], [255]]]] * 2),
    (Discrete(3), [0, 2], torch.int64, [0, 2]),
    (Discrete(3, start=5), [np.int64(5), np.int64(7)], torch.int64, [0, 2]),
    (MultiDiscrete((3, 2)), [np.array([2, 1]), np.array([0, 0])], torch.int64, [[2, 1], [0, 0]]),
    (MultiBinary(2), [np.array([1, 0], np.int8), np.array([0, 1], np.int8)], torch.int64, [[1, 0], [0, 1]]),
]


@pytest.mark.parametrize(("space", "rows", "dtype", "expected"), CASES)
def test_single_observations_are_stacked(space: Space, rows: list[Any], dtype: torch.dtype, expected: Any) -> None:
    batch = stack_rows(rows, space)
    assert isinstance(batch, torch.Tensor)
    assert batch.dtype == dtype
    assert batch.tolist() == expected


@pytest.mark.parametrize(("space", "rows", "dtype", "expected"), CASES)
def test_batches_are_converted(space: Space, rows: list[Any], dtype: torch.dtype, expected: Any) -> None:
    batch = to_tensors(np.array(rows), space, 2)
    assert isinstance(batch, torch.Tensor)
    assert batch.dtype == dtype
    assert batch.tolist() == expected


def test_float64_is_rounded_once() -> None:
    batch = stack_rows([np.array([0.1, 1 / 3])], PAIR)
    assert batch.tolist() == [[float(np.float32(0.1)), float(np.float32(1 / 3))]]


def test_dicts_are_converted_leaf_by_leaf() -> None:
    space = Dict({"pair": PAIR, "gear": Discrete(3, start=1)})
    rows = [{"pair": np.array([0.0, 1.0]), "gear": 3, "ignored": "text"}] * 2
    batch = stack_rows(rows, space)
    arrays: NumpyTree = {"pair": np.array([[0.0, 1.0]] * 2), "gear": np.array([3, 3])}
    for result in (batch, to_tensors(arrays, space, 2)):
        assert isinstance(result, dict)
        assert {key: leaf.tolist() for key, leaf in result.items()} == {"pair": [[0.0, 1.0]] * 2, "gear": [2, 2]}


def test_tensors_do_not_share_memory_with_the_environment() -> None:
    source = np.zeros((1, 2), np.float32)
    batches = [to_tensors(source, PAIR, 1), stack_rows(list(source), PAIR)]
    source[:] = 9
    assert all(batch.tolist() == [[0.0, 0.0]] for batch in batches)


def test_networks_see_memory_of_one_alignment() -> None:
    """Whatever memory the environment's arrays happened to get: rounding may depend on it."""
    rows = np.arange(40, dtype=np.float32)
    for start in range(20):
        pair = rows[start : start + 2]
        fortran = np.asfortranarray(np.stack([pair, pair]))
        for batch in (to_tensors(fortran, PAIR, 2), stack_rows([pair, pair], PAIR)):
            assert isinstance(batch, torch.Tensor)
            assert batch.data_ptr() % 64 == 0
            assert batch.is_contiguous()


@pytest.mark.parametrize(
    ("space", "rows", "words"),
    [
        (PAIR, [np.zeros(2), np.zeros(3)], r"of shape \(3,\) .* says \(2,\): correct `observation_space`"),
        (PAIR, [np.zeros((1, 2))] * 2, r"of shape \(1, 2\) .* says \(2,\)"),
        (PAIR, [0.0, 0.0], r"of shape \(\) .* says \(2,\)"),
        (PAIR, [{"x": 1}, {"x": 1}], r"\(dict\).* says \(2,\)"),
        (PAIR, [None, None], r"\(NoneType\).* says \(2,\)"),
        (Discrete(2), ["left", "right"], r"\(str\).* says \(\)"),
        (Discrete(2), [np.array([0]), np.array([1])], r"of shape \(1,\) .* says \(\)"),
        (Dict({"pair": PAIR}), [{"pear": np.zeros(2)}], r"the keys \['pear'\].*has the key 'pair'"),
        (Dict({"pair": PAIR}), [np.zeros(2)], "with ndarray.*has the key 'pair'"),
    ],
)
def test_wrong_observations_are_sentences(space: Space, rows: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        stack_rows(rows, space)


@pytest.mark.parametrize(
    ("space", "batch", "words"),
    [
        (PAIR, np.zeros((2, 3)), r"of shape \(3,\) .* says \(2,\)"),
        (PAIR, np.zeros((3, 2)), r"of shape \(3, 2\) .* says \(2,\)"),  # one too many
        (PAIR, np.zeros((0, 2)), r"of shape \(0, 2\) .* says \(2,\)"),
        (PAIR, None, r"\(NoneType\).* says \(2,\)"),
        (Dict({"pair": PAIR}), {"pair": np.zeros((2, 3))}, r"of shape \(3,\) .* says \(2,\)"),
        (Dict({"pair": PAIR}), {}, "has the key 'pair'"),
    ],
)
def test_wrong_batches_are_sentences(space: Space, batch: NumpyTree, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        to_tensors(batch, space, 2)


class Camera(gym.Env):
    """Dict observations with an image, a float64 vector and an offset choice; ends every second step."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (1, 2, 1), np.uint8),
            "speed": gym.spaces.Box(-9.0, 9.0, (1,), np.float64),
            "gear": gym.spaces.Discrete(3, start=4),
        }
    )
    action_space = gym.spaces.Discrete(2)

    def observation(self) -> dict[str, Any]:
        return {
            "image": np.full((1, 2, 1), 100 + self.count, np.uint8),
            "speed": np.array([0.5]),
            "gear": 4 + self.count,
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        super().reset(seed=seed)
        self.count = 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict]:
        self.count += 1
        return self.observation(), 1.0, False, self.count == 2, {}


@pytest.mark.parametrize("backend", [*(name for name in BACKENDS_IN_PROCESS if name != "strict"), "async"])
def test_dict_observations_through_the_backends(backend: str) -> None:
    env = build(Camera, backend, 2)
    first = env.reset(seed=0)
    steps = [env.step(torch.zeros(2, dtype=torch.int64)) for _ in range(2)]
    env.close()
    assert isinstance(first, dict)
    assert {key: leaf.dtype for key, leaf in first.items()} == {
        "image": torch.uint8,
        "speed": torch.float32,
        "gear": torch.int64,
    }
    last = steps[1]
    assert isinstance(last.next_obs, dict)
    assert isinstance(last.obs, dict)
    assert last.truncated.all()
    assert (last.next_obs["image"] == 102).all()
    assert last.next_obs["gear"].tolist() == [2, 2]
    assert (last.obs["image"] == 100).all()
    assert last.obs["gear"].tolist() == [0, 0]
