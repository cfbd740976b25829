"""The named variants of DQN, which differ only in their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.core import Needs, register
from rl_training.core.ranges import Count


@dataclass(frozen=True, kw_only=True)
class DoubleDQNConfig(DQNConfig):
    """DQN's settings with double=True."""

    double: bool = True


@dataclass(frozen=True, kw_only=True)
class DuelingDQNConfig(DQNConfig):
    """DQN's settings with dueling=True."""

    dueling: bool = True


@dataclass(frozen=True, kw_only=True)
class PrioritizedDQNConfig(DQNConfig):
    """DQN's settings with prioritized=True."""

    needs = Needs("replay", {"prioritized": True})


@dataclass(frozen=True, kw_only=True)
class NStepDQNConfig(DQNConfig):
    """DQN's settings with n_steps=3."""

    needs = Needs("replay", {"n_steps": 3})


@dataclass(frozen=True, kw_only=True)
class NoisyDQNConfig(DQNConfig):
    """DQN's settings with noisy=True."""

    noisy: bool = True


@dataclass(frozen=True, kw_only=True)
class C51Config(DQNConfig):
    """DQN's settings with head="c51"."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "c51"


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(DQNConfig):
    """DQN's settings with head="quantile"."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "quantile"


@dataclass(frozen=True, kw_only=True)
class IQNConfig(DQNConfig):
    """DQN's settings with head="iqn" and n_quantiles=32."""

    head: Literal["mean", "c51", "quantile", "iqn"] = "iqn"
    n_quantiles: Count = 32


@dataclass(frozen=True, kw_only=True)
class RainbowDQNConfig(DQNConfig):
    """DQN's settings with double, dueling, prioritized, noisy, n_steps=3 and head="c51"."""

    needs = Needs("replay", {"prioritized": True, "n_steps": 3})

    double: bool = True
    dueling: bool = True
    noisy: bool = True
    head: Literal["mean", "c51", "quantile", "iqn"] = "c51"


register("double_dqn", DQNAlgorithm, DoubleDQNConfig, "DQN whose target values the online network's choice of action.")
register("dueling_dqn", DQNAlgorithm, DuelingDQNConfig, "DQN with separate streams for value and advantages.")
register("prioritized_dqn", DQNAlgorithm, PrioritizedDQNConfig, "DQN that replays surprising steps more often.")
register("n_step_dqn", DQNAlgorithm, NStepDQNConfig, "DQN with returns over several steps.")
register("noisy_dqn", DQNAlgorithm, NoisyDQNConfig, "DQN that explores by noise in its weights.")
register("c51", DQNAlgorithm, C51Config, "DQN that learns the return's distribution over fixed atoms.", "core")
register("qr_dqn", DQNAlgorithm, QRDQNConfig, "DQN that learns fixed quantiles of the return.")
register("iqn", DQNAlgorithm, IQNConfig, "DQN that learns all quantiles of the return.")
register("rainbow_dqn", DQNAlgorithm, RainbowDQNConfig, "DQN with double, dueling, prioritised, n-step, noisy and C51.")
