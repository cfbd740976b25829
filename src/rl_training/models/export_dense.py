"""Export of a small policy's layers, with which a program without PyTorch makes the same decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor, nn

from rl_training.core import Box, Discrete, Policy
from rl_training.models.encoders import FlatEncoder
from rl_training.models.mlp import MLP
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.policies import StochasticPolicy
from rl_training.models.q_networks import QNetwork, QPolicy
from rl_training.models.value_heads import MeanHead


class DenseLayer(NamedTuple):
    """A dense layer of a policy, with output activation(weight @ x + bias); its tensors have no gradients."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor
    activation: str | None  # as settings name it; None: the outputs are the scores


def dense_layers(policy: Policy) -> tuple[DenseLayer, ...]:
    """Returns the layers from an observation to one score per action; the policy takes the action with the highest.

    Scores are values (Q) or unnormalised log-probabilities. Raises a ValueError for policies with other layers, or whose
    actions are not Discrete.
    """
    if not isinstance(policy.spec.action, Discrete):
        raise ValueError(
            f"{type(policy.spec.action).__name__} actions have no scores: dense layers are for Discrete ones"
        )
    return tuple(layer for module in chain(policy) for layer in layers_of(module))


def chain(policy: Policy) -> Iterator[nn.Module]:
    """Yields the modules that an observation passes in turn, or the policy itself if its kind is not supported."""
    match policy:
        case StochasticPolicy():
            yield from (policy.normalizer, policy.trunk, policy.head.net)
        case QPolicy(network=QNetwork(head=MeanHead(), value=None, embedding=None) as network, plausible=None):
            yield from (policy.normalizer, network.encoder, network.trunk or nn.Identity(), network.advantage)
        case _:
            yield policy


def layers_of(module: nn.Module) -> Iterator[DenseLayer]:
    match module:
        case MLP(layer_norm=False):
            parameters = [parameter.detach() for parameter in module.parameters()]
            for index, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
                yield DenseLayer(weight, bias, module.activation_fn if index < module.num_hidden else None)
        case nn.Sequential():
            for part in module:
                yield from layers_of(part)
        case FlatEncoder(space=Box(shape=(_,))) | ObservationNormalizer(enabled=False) | nn.Identity():
            return
        case _:
            raise ValueError(
                f"the policy has a {type(module).__name__}, so it is more than dense layers: train it on a flat Box without "
                "normalisation, dueling, noise or layer norm, or call policy.decide"
            )
