"""The algorithms by name: the one place where the package's own are listed and others are added."""

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
from rl_training.algorithms.on_policy import OnPolicyConfig
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


def register_algorithm(name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig]) -> None:
    """Adds an algorithm from outside the package, for this process: configs may then say `algorithm.name: <name>`.

    A checkpoint holds the name only, so whoever loads one registers first. What can be registered today learns from
    rollouts: its config derives from `OnPolicyConfig`.
    """
    entry = Entry(algorithm, config)
    if ALGORITHMS.get(name, entry) != entry:
        raise ValueError(
            f"the algorithm name {name!r} is taken by {ALGORITHMS[name].algorithm.__name__}: choose another"
        )
    if algorithm.learns_from != "rollout" or not issubclass(config, OnPolicyConfig):
        raise ValueError(
            f"{algorithm.__name__} cannot be run: it must learn from rollouts, and {config.__name__} derive from "
            "rl_training.algorithms.on_policy.OnPolicyConfig"
        )
    ALGORITHMS[name] = entry
