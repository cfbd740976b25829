"""Networks: plain modules that algorithms wire together."""

from typing import TYPE_CHECKING

from rl_training.models.actors import (
    Actor,
    ClippedGaussianPolicy,
    DeterministicPolicy,
    RenormActor,
    SquashedGaussianPolicy,
)
from rl_training.models.batch_renorm import BatchRenorm, RenormMLP
from rl_training.models.best_of import BestOfPolicy, ProposalPolicy
from rl_training.models.encoders import DictEncoder, FlatEncoder, build_encoder, encode_mask
from rl_training.models.ensembles import Critics, EnsembleMLP
from rl_training.models.export_dense import DenseLayer, dense_layers
from rl_training.models.mlp import MLP, NoisyMLP, fuse_networks
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.picture_encoders import PICTURE_ENCODERS, ImpalaCNN, NatureCNN, SmallCNN
from rl_training.models.policies import ActionHead, RecurrentPolicy, StochasticPolicy
from rl_training.models.q_networks import PlausibleActions, QNetwork, QPolicy, dormant_share, forbid
from rl_training.models.recurrent import RecurrentCore, forget
from rl_training.models.vae import ActionVAE, Perturbation
from rl_training.models.value_heads import CategoricalHead, MeanHead, QuantileHead, ValueHead

if TYPE_CHECKING:
    from rl_training.api.check_encoder import check_encoder

__all__ = [
    "MLP",
    "PICTURE_ENCODERS",
    "ActionHead",
    "ActionVAE",
    "Actor",
    "BatchRenorm",
    "BestOfPolicy",
    "CategoricalHead",
    "ClippedGaussianPolicy",
    "Critics",
    "DenseLayer",
    "DeterministicPolicy",
    "DictEncoder",
    "EnsembleMLP",
    "FlatEncoder",
    "ImpalaCNN",
    "MeanHead",
    "NatureCNN",
    "NoisyMLP",
    "ObservationNormalizer",
    "Perturbation",
    "PlausibleActions",
    "ProposalPolicy",
    "QNetwork",
    "QPolicy",
    "QuantileHead",
    "RecurrentCore",
    "RecurrentPolicy",
    "RenormActor",
    "RenormMLP",
    "SmallCNN",
    "SquashedGaussianPolicy",
    "StochasticPolicy",
    "ValueHead",
    "build_encoder",
    "check_encoder",
    "dense_layers",
    "dormant_share",
    "encode_mask",
    "forbid",
    "forget",
    "fuse_networks",
]


def __getattr__(name: str) -> object:
    if name == "check_encoder":  # it takes environments, of which networks know nothing
        from rl_training.api import check_encoder as module

        return module.check_encoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
