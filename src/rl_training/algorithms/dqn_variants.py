"""The named variants of DQN: other defaults, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rl_training.algorithms.dqn import DQNConfig
from rl_training.core import Needs


@dataclass(frozen=True, kw_only=True)
class DoubleDQNConfig(DQNConfig):
    """DQN with double=True."""

    double: bool = True


@dataclass(frozen=True, kw_only=True)
class DuelingDQNConfig(DQNConfig):
    """DQN with dueling=True."""

    dueling: bool = True


@dataclass(frozen=True, kw_only=True)
class PrioritizedDQNConfig(DQNConfig):
    """DQN with prioritized=True."""

    needs = Needs("replay", {"prioritized": True})


@dataclass(frozen=True, kw_only=True)
class NStepDQNConfig(DQNConfig):
    """DQN with n_steps=3."""

    needs = Needs("replay", {"n_steps": 3})


@dataclass(frozen=True, kw_only=True)
class NoisyDQNConfig(DQNConfig):
    """DQN with noisy=True."""

    noisy: bool = True


@dataclass(frozen=True, kw_only=True)
class C51Config(DQNConfig):
    """DQN with head="c51"."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "c51"


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(DQNConfig):
    """DQN with head="quantile"."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "quantile"


@dataclass(frozen=True, kw_only=True)
class IQNConfig(DQNConfig):
    """DQN with head="iqn" and n_quantiles=32."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "iqn"
    n_quantiles: int = field(default=32, metadata={"min": 1})


@dataclass(frozen=True, kw_only=True)
class RainbowDQNConfig(DQNConfig):
    """DQN with double, dueling, prioritized, noisy, n_steps=3 and head="c51"."""

    needs = Needs("replay", {"prioritized": True, "n_steps": 3})

    double: bool = True
    dueling: bool = True
    noisy: bool = True
    head: Literal["mean", "c51", "quantile", "iqn"] = "c51"
