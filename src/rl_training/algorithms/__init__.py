"""The maths: one file per algorithm, with its config. The managed classes (PPO, A2C ...) are forwarded lazily."""

from typing import TYPE_CHECKING

from rl_training.algorithms.a2c import A2CAlgorithm, A2CConfig
from rl_training.algorithms.bc import BCAlgorithm, BCConfig
from rl_training.algorithms.crossq import CrossQAlgorithm, CrossQConfig
from rl_training.algorithms.discrete_cql import DiscreteCQLAlgorithm, DiscreteCQLConfig
from rl_training.algorithms.discrete_sac import DiscreteSACAlgorithm, DiscreteSACConfig
from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.dqn_variants import (
    C51Config,
    DoubleDQNConfig,
    DuelingDQNConfig,
    IQNConfig,
    NoisyDQNConfig,
    NStepDQNConfig,
    PrioritizedDQNConfig,
    QRDQNConfig,
    RainbowDQNConfig,
)
from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.algorithms.pqn import PQNAlgorithm, PQNConfig
from rl_training.algorithms.recurrent_ppo import RecurrentPPOAlgorithm, RecurrentPPOConfig
from rl_training.algorithms.sac import REDQConfig, RLPDAlgorithm, RLPDConfig, SACAlgorithm, SACConfig
from rl_training.algorithms.td3 import DDPGConfig, TD3Algorithm, TD3Config
from rl_training.algorithms.tqc import TQCAlgorithm, TQCConfig
from rl_training.algorithms.trpo import TRPOAlgorithm, TRPOConfig

if TYPE_CHECKING:
    from rl_training.api import (
        A2C,
        BC,
        C51,
        DDPG,
        DQN,
        IQN,
        PPO,
        PQN,
        QRDQN,
        REDQ,
        RLPD,
        SAC,
        TD3,
        TQC,
        TRPO,
        CrossQ,
        DiscreteCQL,
        DiscreteSAC,
        DoubleDQN,
        DuelingDQN,
        NoisyDQN,
        NStepDQN,
        PrioritizedDQN,
        RainbowDQN,
        RecurrentPPO,
    )

__all__ = [
    "A2C",
    "BC",
    "C51",
    "DDPG",
    "DQN",
    "IQN",
    "PPO",
    "PQN",
    "QRDQN",
    "REDQ",
    "RLPD",
    "SAC",
    "TD3",
    "TQC",
    "TRPO",
    "A2CAlgorithm",
    "A2CConfig",
    "BCAlgorithm",
    "BCConfig",
    "C51Config",
    "CrossQ",
    "CrossQAlgorithm",
    "CrossQConfig",
    "DDPGConfig",
    "DQNAlgorithm",
    "DQNConfig",
    "DiscreteCQL",
    "DiscreteCQLAlgorithm",
    "DiscreteCQLConfig",
    "DiscreteSAC",
    "DiscreteSACAlgorithm",
    "DiscreteSACConfig",
    "DoubleDQN",
    "DoubleDQNConfig",
    "DuelingDQN",
    "DuelingDQNConfig",
    "IQNConfig",
    "NStepDQN",
    "NStepDQNConfig",
    "NoisyDQN",
    "NoisyDQNConfig",
    "PPOAlgorithm",
    "PPOConfig",
    "PQNAlgorithm",
    "PQNConfig",
    "PrioritizedDQN",
    "PrioritizedDQNConfig",
    "QRDQNConfig",
    "REDQConfig",
    "RLPDAlgorithm",
    "RLPDConfig",
    "RainbowDQN",
    "RainbowDQNConfig",
    "RecurrentPPO",
    "RecurrentPPOAlgorithm",
    "RecurrentPPOConfig",
    "SACAlgorithm",
    "SACConfig",
    "TD3Algorithm",
    "TD3Config",
    "TQCAlgorithm",
    "TQCConfig",
    "TRPOAlgorithm",
    "TRPOConfig",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        import rl_training.api

        return getattr(rl_training.api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
