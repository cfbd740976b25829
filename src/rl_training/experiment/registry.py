"""The algorithms by name: the one place a new one is listed."""

from __future__ import annotations

from typing import NamedTuple

from rl_training.algorithms import (
    A2CAlgorithm,
    A2CConfig,
    PPOAlgorithm,
    PPOConfig,
    RecurrentPPOAlgorithm,
    RecurrentPPOConfig,
    TRPOAlgorithm,
    TRPOConfig,
)
from rl_training.core import Algorithm, AlgorithmConfig


class Entry(NamedTuple):
    algorithm: type[Algorithm]
    config: type[AlgorithmConfig]


ALGORITHMS: dict[str, Entry] = {
    "ppo": Entry(PPOAlgorithm, PPOConfig),
    "a2c": Entry(A2CAlgorithm, A2CConfig),
    "trpo": Entry(TRPOAlgorithm, TRPOConfig),
    "recurrent_ppo": Entry(RecurrentPPOAlgorithm, RecurrentPPOConfig),
}
