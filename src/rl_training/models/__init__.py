"""Networks: plain modules that algorithms wire together."""

from rl_training.models.actors import Actor, DeterministicPolicy, RenormActor, SquashedGaussianPolicy
from rl_training.models.batch_renorm import BatchRenorm, RenormMLP
from rl_training.models.encoders import DictEncoder, FlatEncoder, NatureCNN, build_encoder, encode_mask
from rl_training.models.ensembles import Critics, EnsembleMLP
from rl_training.models.mlp import MLP, NoisyMLP, fuse_networks
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.policies import RecurrentPolicy, StochasticPolicy
from rl_training.models.q_networks import QNetwork, dormant_share
from rl_training.models.q_policy import QPolicy, forbid
from rl_training.models.recurrent import RecurrentCore, forget
from rl_training.models.value_heads import CategoricalHead, MeanHead, QuantileHead, ValueHead

__all__ = [
    "MLP",
    "Actor",
    "BatchRenorm",
    "CategoricalHead",
    "Critics",
    "DeterministicPolicy",
    "DictEncoder",
    "EnsembleMLP",
    "FlatEncoder",
    "MeanHead",
    "NatureCNN",
    "NoisyMLP",
    "ObservationNormalizer",
    "QNetwork",
    "QPolicy",
    "QuantileHead",
    "RecurrentCore",
    "RecurrentPolicy",
    "RenormActor",
    "RenormMLP",
    "SquashedGaussianPolicy",
    "StochasticPolicy",
    "ValueHead",
    "build_encoder",
    "dormant_share",
    "encode_mask",
    "forbid",
    "forget",
    "fuse_networks",
]
