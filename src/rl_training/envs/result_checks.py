"""Checks of what an environment's `reset` and `step` return, with an error message for each mistake."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

STEP_LENGTH = 5
RESET_LENGTH = 2


def check_reset(index: int, answer: Any) -> None:
    """Raises a ValueError that names environment `index` if its `reset` did not return (observation, info dict)."""
    if isinstance(answer, tuple) and len(answer) == RESET_LENGTH and isinstance(answer[1], dict):
        return
    given = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else type(answer).__name__
    raise ValueError(
        f"environment {index}: `reset` returned {given}: gymnasium wants (observation, info), and info to be a dict; the "
        "observation alone is the old gym API"
    )


def check_step(index: int, answer: Any) -> None:
    """Raises a ValueError that names environment `index` unless `answer` is a valid result of its `step`.

    Valid is (observation, reward, terminated, truncated, info): a reward with exactly one element, in any shape; scalar
    flags that are True, False, 0 or 1; and a dict as info.
    """
    if not isinstance(answer, tuple) or len(answer) != STEP_LENGTH:
        given = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise ValueError(
            f"environment {index}: `step` returned {given}: gymnasium wants {STEP_LENGTH} (observation, reward, terminated, "
            "truncated, info); four are the old gym API"
        )
    _, reward, terminated, truncated, info = answer
    if not is_one(reward, "iubf"):
        raise ValueError(
            f"environment {index} returned the reward {reward!r}: `step` must return one number as its reward"
        )
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not is_one(flag, "iubf") or np.ndim(flag) or flag not in (0, 1):
            raise ValueError(f"environment {index} returned {name}={flag!r}: `step` must return True or False there")
    if not isinstance(info, dict):
        raise ValueError(f"environment {index} returned info={info!r}: `step` must return a dict there")


class CheckedSteps(gym.Wrapper):
    """A wrapper that raises a ValueError if `step` returns no tuple of five, or `reset` no (observation, dict)."""

    def __init__(self, env: gym.Env, index: int) -> None:
        super().__init__(env)
        self.index = index

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) != STEP_LENGTH:
            check_step(self.index, answer)
        return answer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        answer = self.env.reset(seed=seed, options=options)
        check_reset(self.index, answer)
        return answer


def is_one(value: Any, kinds: str) -> bool:
    """Returns True if `value` has exactly one element, in any shape, of a numpy dtype kind in `kinds`, e.g. "iuf"."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return array.size == 1 and array.dtype.kind in kinds


def rewards_tensor(rewards: tuple[Any, ...]) -> Tensor:
    """Returns the rewards of all environments as a float32 tensor [num_envs].

    Raises a TypeError or ValueError unless each has exactly one element and is numeric; text is not converted.
    """
    batch = np.array(rewards)
    if batch.dtype.kind not in "iubf":
        raise TypeError(f"rewards of type {batch.dtype}")
    return torch.from_numpy(batch.reshape(len(rewards)).astype(np.float32))


def flags_tensor(flags: tuple[Any, ...]) -> Tensor:
    """Returns one flag per environment as a bool tensor [num_envs].

    Raises a TypeError or ValueError unless each flag is a scalar True, False, 0 or 1.
    """
    batch = np.array(flags)
    plain = batch.dtype.kind == "b" or (batch.dtype.kind in "iuf" and ((batch == 0) | (batch == 1)).all())
    if not plain or batch.ndim != 1:
        raise TypeError(f"flags of type {batch.dtype} and shape {batch.shape}")
    return torch.from_numpy(batch.astype(bool, copy=False))
