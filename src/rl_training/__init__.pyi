"""Written by scripts/make_stubs.py from the registry of algorithms: change that, and run it again."""

from rl_training import algorithms as algorithms
from rl_training import core as core
from rl_training import data as data
from rl_training import envs as envs
from rl_training import evaluation as evaluation
from rl_training import extending as extending
from rl_training import functional as functional
from rl_training import models as models
from rl_training import runtime as runtime
from rl_training.api import Agent as Agent
from rl_training.runtime import Callback as Callback
from rl_training.experiment import CheckpointError as CheckpointError
from rl_training.config import ConfigError as ConfigError
from rl_training.data import Dataset as Dataset
from rl_training.runtime import EvalResult as EvalResult
from rl_training.runtime import NonFiniteError as NonFiniteError
from rl_training.experiment import RecordVideo as RecordVideo
from rl_training.experiment import RunComparison as RunComparison
from rl_training.config import RunConfig as RunConfig
from rl_training.experiment import RunRecord as RunRecord
from rl_training.api import Stacked as Stacked
from rl_training.api import TrainResult as TrainResult
from rl_training.experiment import compare_runs as compare_runs
from rl_training.api.sb3 import import_sb3 as import_sb3
from rl_training.api import load as load
from rl_training.api import make_data as make_data
from rl_training.api import make_data_like as make_data_like
from rl_training.experiment import remove_runs as remove_runs
from rl_training.experiment import runs as runs
from rl_training.api import stacked as stacked
from rl_training.tuning import tune as tune
from rl_training.api import write_hub_card as write_hub_card
from rl_training.experiment import write_report as write_report
from rl_training.algorithms import A2CConfig as A2CConfig
from rl_training.algorithms import APPOConfig as APPOConfig
from rl_training.algorithms import AWACConfig as AWACConfig
from rl_training.algorithms import BCConfig as BCConfig
from rl_training.algorithms import BCQConfig as BCQConfig
from rl_training.algorithms import BEARConfig as BEARConfig
from rl_training.algorithms import C51Config as C51Config
from rl_training.algorithms import CQLConfig as CQLConfig
from rl_training.algorithms import CalQLConfig as CalQLConfig
from rl_training.algorithms import CrossQConfig as CrossQConfig
from rl_training.algorithms import DDPGConfig as DDPGConfig
from rl_training.algorithms import DQNConfig as DQNConfig
from rl_training.algorithms import DiscreteBCQConfig as DiscreteBCQConfig
from rl_training.algorithms import DiscreteCQLConfig as DiscreteCQLConfig
from rl_training.algorithms import DiscreteIQLConfig as DiscreteIQLConfig
from rl_training.algorithms import DiscreteSACConfig as DiscreteSACConfig
from rl_training.algorithms import DoubleDQNConfig as DoubleDQNConfig
from rl_training.algorithms import DuelingDQNConfig as DuelingDQNConfig
from rl_training.algorithms import IMPALAConfig as IMPALAConfig
from rl_training.algorithms import IPPOConfig as IPPOConfig
from rl_training.algorithms import IQLConfig as IQLConfig
from rl_training.algorithms import IQNConfig as IQNConfig
from rl_training.algorithms import IndependentQConfig as IndependentQConfig
from rl_training.algorithms import MAPPOConfig as MAPPOConfig
from rl_training.algorithms import NStepDQNConfig as NStepDQNConfig
from rl_training.algorithms import NoisyDQNConfig as NoisyDQNConfig
from rl_training.algorithms import PPOConfig as PPOConfig
from rl_training.algorithms import PQNConfig as PQNConfig
from rl_training.algorithms import PrioritizedDQNConfig as PrioritizedDQNConfig
from rl_training.algorithms import QMIXConfig as QMIXConfig
from rl_training.algorithms import QRDQNConfig as QRDQNConfig
from rl_training.algorithms import REDQConfig as REDQConfig
from rl_training.algorithms import RLPDConfig as RLPDConfig
from rl_training.algorithms import RainbowDQNConfig as RainbowDQNConfig
from rl_training.algorithms import ReBRACConfig as ReBRACConfig
from rl_training.algorithms import RecurrentIPPOConfig as RecurrentIPPOConfig
from rl_training.algorithms import RecurrentMAPPOConfig as RecurrentMAPPOConfig
from rl_training.algorithms import RecurrentPPOConfig as RecurrentPPOConfig
from rl_training.algorithms import SACConfig as SACConfig
from rl_training.algorithms import TD3BCConfig as TD3BCConfig
from rl_training.algorithms import TD3Config as TD3Config
from rl_training.algorithms import TQCConfig as TQCConfig
from rl_training.algorithms import TRPOConfig as TRPOConfig
from rl_training.algorithms import VDNConfig as VDNConfig
from rl_training.api.names import A2C as A2C
from rl_training.api.names import APPO as APPO
from rl_training.api.names import AWAC as AWAC
from rl_training.api.names import BC as BC
from rl_training.api.names import BCQ as BCQ
from rl_training.api.names import BEAR as BEAR
from rl_training.api.names import C51 as C51
from rl_training.api.names import CQL as CQL
from rl_training.api.names import CalQL as CalQL
from rl_training.api.names import CrossQ as CrossQ
from rl_training.api.names import DDPG as DDPG
from rl_training.api.names import DQN as DQN
from rl_training.api.names import DiscreteBCQ as DiscreteBCQ
from rl_training.api.names import DiscreteCQL as DiscreteCQL
from rl_training.api.names import DiscreteIQL as DiscreteIQL
from rl_training.api.names import DiscreteSAC as DiscreteSAC
from rl_training.api.names import DoubleDQN as DoubleDQN
from rl_training.api.names import DuelingDQN as DuelingDQN
from rl_training.api.names import IMPALA as IMPALA
from rl_training.api.names import IPPO as IPPO
from rl_training.api.names import IQL as IQL
from rl_training.api.names import IQN as IQN
from rl_training.api.names import IndependentQ as IndependentQ
from rl_training.api.names import MAPPO as MAPPO
from rl_training.api.names import NStepDQN as NStepDQN
from rl_training.api.names import NoisyDQN as NoisyDQN
from rl_training.api.names import PPO as PPO
from rl_training.api.names import PQN as PQN
from rl_training.api.names import PrioritizedDQN as PrioritizedDQN
from rl_training.api.names import QMIX as QMIX
from rl_training.api.names import QRDQN as QRDQN
from rl_training.api.names import REDQ as REDQ
from rl_training.api.names import RLPD as RLPD
from rl_training.api.names import RainbowDQN as RainbowDQN
from rl_training.api.names import ReBRAC as ReBRAC
from rl_training.api.names import RecurrentIPPO as RecurrentIPPO
from rl_training.api.names import RecurrentMAPPO as RecurrentMAPPO
from rl_training.api.names import RecurrentPPO as RecurrentPPO
from rl_training.api.names import SAC as SAC
from rl_training.api.names import TD3 as TD3
from rl_training.api.names import TD3BC as TD3BC
from rl_training.api.names import TQC as TQC
from rl_training.api.names import TRPO as TRPO
from rl_training.api.names import VDN as VDN

__version__: str
HOMES: dict[str, str]
SUBPACKAGES: tuple[str, ...]

__all__ = [
    "A2C",
    "A2CConfig",
    "APPO",
    "APPOConfig",
    "AWAC",
    "AWACConfig",
    "Agent",
    "BC",
    "BCConfig",
    "BCQ",
    "BCQConfig",
    "BEAR",
    "BEARConfig",
    "C51",
    "C51Config",
    "CQL",
    "CQLConfig",
    "CalQL",
    "CalQLConfig",
    "Callback",
    "CheckpointError",
    "ConfigError",
    "CrossQ",
    "CrossQConfig",
    "DDPG",
    "DDPGConfig",
    "DQN",
    "DQNConfig",
    "Dataset",
    "DiscreteBCQ",
    "DiscreteBCQConfig",
    "DiscreteCQL",
    "DiscreteCQLConfig",
    "DiscreteIQL",
    "DiscreteIQLConfig",
    "DiscreteSAC",
    "DiscreteSACConfig",
    "DoubleDQN",
    "DoubleDQNConfig",
    "DuelingDQN",
    "DuelingDQNConfig",
    "EvalResult",
    "IMPALA",
    "IMPALAConfig",
    "IPPO",
    "IPPOConfig",
    "IQL",
    "IQLConfig",
    "IQN",
    "IQNConfig",
    "IndependentQ",
    "IndependentQConfig",
    "MAPPO",
    "MAPPOConfig",
    "NStepDQN",
    "NStepDQNConfig",
    "NoisyDQN",
    "NoisyDQNConfig",
    "NonFiniteError",
    "PPO",
    "PPOConfig",
    "PQN",
    "PQNConfig",
    "PrioritizedDQN",
    "PrioritizedDQNConfig",
    "QMIX",
    "QMIXConfig",
    "QRDQN",
    "QRDQNConfig",
    "REDQ",
    "REDQConfig",
    "RLPD",
    "RLPDConfig",
    "RainbowDQN",
    "RainbowDQNConfig",
    "ReBRAC",
    "ReBRACConfig",
    "RecordVideo",
    "RecurrentIPPO",
    "RecurrentIPPOConfig",
    "RecurrentMAPPO",
    "RecurrentMAPPOConfig",
    "RecurrentPPO",
    "RecurrentPPOConfig",
    "RunComparison",
    "RunConfig",
    "RunRecord",
    "SAC",
    "SACConfig",
    "Stacked",
    "TD3",
    "TD3BC",
    "TD3BCConfig",
    "TD3Config",
    "TQC",
    "TQCConfig",
    "TRPO",
    "TRPOConfig",
    "TrainResult",
    "VDN",
    "VDNConfig",
    "compare_runs",
    "import_sb3",
    "load",
    "make_data",
    "make_data_like",
    "remove_runs",
    "runs",
    "stacked",
    "tune",
    "write_hub_card",
    "write_report",
]
