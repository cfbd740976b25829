"""Networks: plain modules that algorithms wire together."""

from rl_training.models.encoders import DictEncoder, FlatEncoder, NatureCNN, build_encoder
from rl_training.models.mlp import MLP
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.policies import RecurrentPolicy, StochasticPolicy
from rl_training.models.recurrent import RecurrentCore, forget

__all__ = [
    "MLP",
    "DictEncoder",
    "FlatEncoder",
    "NatureCNN",
    "ObservationNormalizer",
    "RecurrentCore",
    "RecurrentPolicy",
    "StochasticPolicy",
    "build_encoder",
    "forget",
]
