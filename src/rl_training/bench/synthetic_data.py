"""Data for measurements of speed: random numbers of given sizes, as `peers/d3rlpy_speed.py` draws them."""

from __future__ import annotations

import math

import numpy as np

from rl_training.core import Box, Spec
from rl_training.data import Dataset


def synthetic(sizes: dict[str, int]) -> Dataset:
    """Returns a dataset of random steps in truncated episodes of one length, of the same random numbers every time.

    `sizes` are "rows", "episode_length", "obs_size" and "action_size".
    """
    rng, rows, length = np.random.default_rng(0), sizes["rows"], sizes["episode_length"]
    obs_size, action_size = sizes["obs_size"], sizes["action_size"]
    return Dataset.from_arrays(
        obs=rng.standard_normal((rows, obs_size), dtype=np.float32),
        action=rng.uniform(-1, 1, (rows, action_size)).astype(np.float32),
        reward=rng.standard_normal(rows, dtype=np.float32),
        terminated=np.zeros(rows, bool),
        truncated=np.arange(rows) % length == length - 1,
        last_obs=rng.standard_normal((rows // length, obs_size), dtype=np.float32),
        spec=Spec(
            Box((obs_size,), (-math.inf,) * obs_size, (math.inf,) * obs_size),
            Box((action_size,), (-1.0,) * action_size, (1.0,) * action_size),
        ),
    )
