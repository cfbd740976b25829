"""Written by scripts/make_stubs.py from the registry of algorithms: change that, and run it again."""

from rl_training.core.registry import Entry
from rl_training.algorithms.a2c import A2CAlgorithm as A2CAlgorithm
from rl_training.algorithms.a2c import A2CConfig as A2CConfig
from rl_training.algorithms.bc import BCAlgorithm as BCAlgorithm
from rl_training.algorithms.bc import BCConfig as BCConfig
from rl_training.algorithms.dqn_variants import C51Config as C51Config
from rl_training.algorithms.crossq import CrossQAlgorithm as CrossQAlgorithm
from rl_training.algorithms.crossq import CrossQConfig as CrossQConfig
from rl_training.algorithms.td3 import DDPGConfig as DDPGConfig
from rl_training.algorithms.dqn import DQNAlgorithm as DQNAlgorithm
from rl_training.algorithms.dqn import DQNConfig as DQNConfig
from rl_training.algorithms.discrete_cql import DiscreteCQLAlgorithm as DiscreteCQLAlgorithm
from rl_training.algorithms.discrete_cql import DiscreteCQLConfig as DiscreteCQLConfig
from rl_training.algorithms.discrete_sac import DiscreteSACAlgorithm as DiscreteSACAlgorithm
from rl_training.algorithms.discrete_sac import DiscreteSACConfig as DiscreteSACConfig
from rl_training.algorithms.dqn_variants import DoubleDQNConfig as DoubleDQNConfig
from rl_training.algorithms.dqn_variants import DuelingDQNConfig as DuelingDQNConfig
from rl_training.algorithms.dqn_variants import IQNConfig as IQNConfig
from rl_training.algorithms.dqn_variants import NStepDQNConfig as NStepDQNConfig
from rl_training.algorithms.dqn_variants import NoisyDQNConfig as NoisyDQNConfig
from rl_training.algorithms.ppo import PPOAlgorithm as PPOAlgorithm
from rl_training.algorithms.ppo import PPOConfig as PPOConfig
from rl_training.algorithms.pqn import PQNAlgorithm as PQNAlgorithm
from rl_training.algorithms.pqn import PQNConfig as PQNConfig
from rl_training.algorithms.dqn_variants import PrioritizedDQNConfig as PrioritizedDQNConfig
from rl_training.algorithms.dqn_variants import QRDQNConfig as QRDQNConfig
from rl_training.algorithms.sac import REDQConfig as REDQConfig
from rl_training.algorithms.sac import RLPDAlgorithm as RLPDAlgorithm
from rl_training.algorithms.sac import RLPDConfig as RLPDConfig
from rl_training.algorithms.dqn_variants import RainbowDQNConfig as RainbowDQNConfig
from rl_training.algorithms.recurrent_ppo import RecurrentPPOAlgorithm as RecurrentPPOAlgorithm
from rl_training.algorithms.recurrent_ppo import RecurrentPPOConfig as RecurrentPPOConfig
from rl_training.algorithms.sac import SACAlgorithm as SACAlgorithm
from rl_training.algorithms.sac import SACConfig as SACConfig
from rl_training.algorithms.td3 import TD3Algorithm as TD3Algorithm
from rl_training.algorithms.td3 import TD3Config as TD3Config
from rl_training.algorithms.tqc import TQCAlgorithm as TQCAlgorithm
from rl_training.algorithms.tqc import TQCConfig as TQCConfig
from rl_training.algorithms.trpo import TRPOAlgorithm as TRPOAlgorithm
from rl_training.algorithms.trpo import TRPOConfig as TRPOConfig
from rl_training.api.names import A2C as A2C
from rl_training.api.names import BC as BC
from rl_training.api.names import C51 as C51
from rl_training.api.names import CrossQ as CrossQ
from rl_training.api.names import DDPG as DDPG
from rl_training.api.names import DQN as DQN
from rl_training.api.names import DiscreteCQL as DiscreteCQL
from rl_training.api.names import DiscreteSAC as DiscreteSAC
from rl_training.api.names import DoubleDQN as DoubleDQN
from rl_training.api.names import DuelingDQN as DuelingDQN
from rl_training.api.names import IQN as IQN
from rl_training.api.names import NStepDQN as NStepDQN
from rl_training.api.names import NoisyDQN as NoisyDQN
from rl_training.api.names import PPO as PPO
from rl_training.api.names import PQN as PQN
from rl_training.api.names import PrioritizedDQN as PrioritizedDQN
from rl_training.api.names import QRDQN as QRDQN
from rl_training.api.names import REDQ as REDQ
from rl_training.api.names import RLPD as RLPD
from rl_training.api.names import RainbowDQN as RainbowDQN
from rl_training.api.names import RecurrentPPO as RecurrentPPO
from rl_training.api.names import SAC as SAC
from rl_training.api.names import TD3 as TD3
from rl_training.api.names import TQC as TQC
from rl_training.api.names import TRPO as TRPO

AGENTS: dict[str, tuple[str, Entry]]
PARTS: dict[str, type]

__all__ = [
    "A2C",
    "A2CAlgorithm",
    "A2CConfig",
    "BC",
    "BCAlgorithm",
    "BCConfig",
    "C51",
    "C51Config",
    "CrossQ",
    "CrossQAlgorithm",
    "CrossQConfig",
    "DDPG",
    "DDPGConfig",
    "DQN",
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
    "IQN",
    "IQNConfig",
    "NStepDQN",
    "NStepDQNConfig",
    "NoisyDQN",
    "NoisyDQNConfig",
    "PPO",
    "PPOAlgorithm",
    "PPOConfig",
    "PQN",
    "PQNAlgorithm",
    "PQNConfig",
    "PrioritizedDQN",
    "PrioritizedDQNConfig",
    "QRDQN",
    "QRDQNConfig",
    "REDQ",
    "REDQConfig",
    "RLPD",
    "RLPDAlgorithm",
    "RLPDConfig",
    "RainbowDQN",
    "RainbowDQNConfig",
    "RecurrentPPO",
    "RecurrentPPOAlgorithm",
    "RecurrentPPOConfig",
    "SAC",
    "SACAlgorithm",
    "SACConfig",
    "TD3",
    "TD3Algorithm",
    "TD3Config",
    "TQC",
    "TQCAlgorithm",
    "TQCConfig",
    "TRPO",
    "TRPOAlgorithm",
    "TRPOConfig",
]
