"""The algorithms by name: the one place where the package's own are listed and others are added."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from rl_training.algorithms import (
    A2CAlgorithm,
    A2CConfig,
    BCAlgorithm,
    BCConfig,
    C51Config,
    CrossQAlgorithm,
    CrossQConfig,
    DDPGConfig,
    DiscreteCQLAlgorithm,
    DiscreteCQLConfig,
    DiscreteSACAlgorithm,
    DiscreteSACConfig,
    DoubleDQNConfig,
    DQNAlgorithm,
    DQNConfig,
    DuelingDQNConfig,
    IQNConfig,
    NoisyDQNConfig,
    NStepDQNConfig,
    PPOAlgorithm,
    PPOConfig,
    PQNAlgorithm,
    PQNConfig,
    PrioritizedDQNConfig,
    QRDQNConfig,
    RainbowDQNConfig,
    RecurrentPPOAlgorithm,
    RecurrentPPOConfig,
    REDQConfig,
    RLPDAlgorithm,
    RLPDConfig,
    SACAlgorithm,
    SACConfig,
    TD3Algorithm,
    TD3Config,
    TQCAlgorithm,
    TQCConfig,
    TRPOAlgorithm,
    TRPOConfig,
)
from rl_training.algorithms.off_policy import OffPolicyConfig
from rl_training.algorithms.on_policy import RolloutConfig
from rl_training.core import Algorithm, AlgorithmConfig
from rl_training.experiment.foreign_names import SETTINGS, SETTINGS_ADVICE
from rl_training.experiment.parsing import nearest


class Entry(NamedTuple):
    algorithm: type[Algorithm]
    config: type[AlgorithmConfig]

    @property
    def fields(self) -> list[str]:
        """The names of its settings."""
        return [field.name for field in dataclasses.fields(self.config)]


ALGORITHMS: dict[str, Entry] = {
    "ppo": Entry(PPOAlgorithm, PPOConfig),
    "a2c": Entry(A2CAlgorithm, A2CConfig),
    "trpo": Entry(TRPOAlgorithm, TRPOConfig),
    "recurrent_ppo": Entry(RecurrentPPOAlgorithm, RecurrentPPOConfig),
    "dqn": Entry(DQNAlgorithm, DQNConfig),
    "double_dqn": Entry(DQNAlgorithm, DoubleDQNConfig),
    "dueling_dqn": Entry(DQNAlgorithm, DuelingDQNConfig),
    "prioritized_dqn": Entry(DQNAlgorithm, PrioritizedDQNConfig),
    "n_step_dqn": Entry(DQNAlgorithm, NStepDQNConfig),
    "noisy_dqn": Entry(DQNAlgorithm, NoisyDQNConfig),
    "c51": Entry(DQNAlgorithm, C51Config),
    "qr_dqn": Entry(DQNAlgorithm, QRDQNConfig),
    "iqn": Entry(DQNAlgorithm, IQNConfig),
    "rainbow_dqn": Entry(DQNAlgorithm, RainbowDQNConfig),
    "discrete_sac": Entry(DiscreteSACAlgorithm, DiscreteSACConfig),
    "pqn": Entry(PQNAlgorithm, PQNConfig),
    "ddpg": Entry(TD3Algorithm, DDPGConfig),
    "td3": Entry(TD3Algorithm, TD3Config),
    "sac": Entry(SACAlgorithm, SACConfig),
    "redq": Entry(SACAlgorithm, REDQConfig),
    "tqc": Entry(TQCAlgorithm, TQCConfig),
    "crossq": Entry(CrossQAlgorithm, CrossQConfig),
    "bc": Entry(BCAlgorithm, BCConfig),
    "discrete_cql": Entry(DiscreteCQLAlgorithm, DiscreteCQLConfig),
    "rlpd": Entry(RLPDAlgorithm, RLPDConfig),
}


def register_algorithm(name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig]) -> None:
    """Adds an algorithm from outside the package, for this process: configs may then say `algorithm.name: <name>`.

    A checkpoint holds the name only, so whoever loads one registers first. The config derives from `RolloutConfig` or
    `OffPolicyConfig`, by what the algorithm learns from.
    """
    entry = Entry(algorithm, config)
    if ALGORITHMS.get(name, entry) != entry:
        raise ValueError(
            f"the algorithm name {name!r} is taken by {ALGORITHMS[name].algorithm.__name__}: choose another"
        )
    base = {"rollout": RolloutConfig, "replay": OffPolicyConfig, "data": AlgorithmConfig}[algorithm.learns_from]
    if not issubclass(config, base):
        raise ValueError(
            f"{algorithm.__name__} cannot be run: it learns from {algorithm.learns_from}, so {config.__name__} must derive "
            f"from {base.__module__}.{base.__name__}"
        )
    ALGORITHMS[name] = entry


def whose(setting: str, name: str, others: Sequence[str] = ()) -> str:
    """What to say of a setting that an algorithm does not have: which ones do, or the nearest of its own and others."""
    owners = [owner for owner, entry in ALGORITHMS.items() if setting in entry.fields]
    if owners and setting not in SETTINGS | SETTINGS_ADVICE:
        return f"it is one of {', '.join(owners[:3])}{' and others' * (len(owners) > 3)}, leave it out"
    return nearest(setting, [*ALGORITHMS[name].fields, *others])
