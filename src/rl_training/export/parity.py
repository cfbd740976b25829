"""Parity files: observations with the outputs that the policy has for them in this library."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Leaf, MultiBinary, MultiDiscrete
from rl_training.export.program import PolicyProgram, choices_of, input_name
from rl_training.export.run_policy import Arrays
from rl_training.models.normalizer import ObservationNormalizer, RunningNorm

FORWARD, RECURRENT = (4, 250), (200, 5)  # times and rows: 1,000 observations; a policy with memory gets long sequences
BLOCK = 6  # pixels of a picture that are equal: pictures compress then, as real ones do
RESTARTS = 0.01  # share of the observations that begin an episode, for policies with memory


@torch.no_grad()
def expected_outputs(program: PolicyProgram, spec: dict, seed: int = 0) -> Arrays:
    """Returns drawn observations and flags, `input.NAME`, and the outputs for them, `output.NAME`: [time, row, ...]."""
    random = np.random.default_rng(seed)
    times, rows = RECURRENT if program.memory else FORWARD
    inputs = {input_name(key): draw(program, key, leaf, (times, rows), random) for key, leaf in program.leaves.items()}
    if program.memory:
        inputs["first"] = random.random((times, rows)) < RESTARTS
        inputs["first"][0] = True
    names = [part["name"] for part in spec["outputs"]]
    memory: tuple[Tensor, ...] = tuple(torch.zeros(rows, *shape) for _, shape in program.memory)
    outputs: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for time in range(times):
        values = [torch.from_numpy(part[time]) for part in inputs.values()]
        flags = [values.pop()] if program.memory else []
        results = program(*values, *memory, *flags)
        memory = results[len(names) :]
        for name, result in zip(names, results, strict=False):
            outputs[name].append(result.numpy())
    expected = {f"output.{name}": np.stack(parts) for name, parts in outputs.items()}
    return {f"input.{name}": part for name, part in inputs.items()} | expected


def write_parity(path: Path, arrays: Arrays, about: dict) -> None:
    """Writes a parity file, without pickle; `about` says how the file of the policy compared when it was written."""
    with path.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)  # pyrefly: ignore (no array is called so)


def draw(
    program: PolicyProgram, key: str, leaf: Leaf, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray:
    """Returns random observations [*shape, ...], with the mean and deviation that the policy knows of them, if it does."""
    if key == "action_mask":
        return draw_masks(program, leaf, shape, random)
    match leaf:
        case Discrete():
            return random.integers(leaf.start, leaf.start + leaf.num, shape)
        case MultiDiscrete(nums):
            return random.integers(0, nums, (*shape, len(nums)))
        case MultiBinary(num):
            return random.integers(0, 2, (*shape, num))
        case Box(dtype="uint8"):
            return draw_pictures(leaf, shape, random)
    assert isinstance(leaf, Box)
    low, high = (np.array(bound, np.float64).reshape(leaf.shape) for bound in (leaf.low, leaf.high))
    bounded = (low > -1e6) & (high < 1e6)
    normal = random.normal(size=(*shape, *leaf.shape))
    norm = normalizer_of(program, key)
    if norm is not None and norm.count > 0:
        values = norm.mean.numpy() + normal * norm.var.sqrt().numpy()
    else:
        uniform = random.random((*shape, *leaf.shape))
        span = np.where(bounded, high - low, 0.0)
        values = np.where(bounded, np.where(bounded, low, 0.0) + uniform * span, normal)
    return np.clip(values, low, high).astype(leaf.dtype)


def normalizer_of(program: PolicyProgram, key: str) -> RunningNorm | None:
    normalizer = getattr(program.policy, "normalizer", None)
    if not isinstance(normalizer, ObservationNormalizer) or key not in normalizer.names:
        return None
    found = normalizer.norms[normalizer.names.index(key)]
    assert isinstance(found, RunningNorm)
    return found


def draw_pictures(leaf: Box, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if len(leaf.shape) != 3:
        return random.integers(0, 256, (*shape, *leaf.shape), dtype=np.uint8)
    coarse = tuple(math.ceil(size / BLOCK) for size in leaf.shape)
    blocks = random.integers(0, 256, (*shape, *coarse), dtype=np.uint8)
    for axis, size in enumerate(leaf.shape, start=len(shape)):
        blocks = blocks.repeat(BLOCK, axis).take(np.arange(size), axis)
    return blocks


def draw_masks(program: PolicyProgram, leaf: Leaf, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Returns masks that allow at least one choice in every part of an action."""
    parts = []
    for num in choices_of(program.policy.spec.action) or [leaf.size]:
        allowed = random.random((*shape, num)) < 0.6
        np.put_along_axis(allowed, random.integers(0, num, (*shape, 1)), True, -1)
        parts.append(allowed)
    return np.concatenate(parts, -1).reshape(*shape, *leaf.shape).astype(leaf.dtype)
