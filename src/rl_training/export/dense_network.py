"""Policies of dense layers as arrays, which NumPy alone can run; files of kind .npz."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rl_training.core import Box, Discrete, Leaf, MultiBinary, MultiDiscrete, Policy
from rl_training.core.arguments import ConfigError
from rl_training.export.program import PolicyProgram, input_name
from rl_training.models.actors import (
    LOG_STD_RANGE,
    Actor,
    ClippedGaussianPolicy,
    DeterministicPolicy,
    RenormActor,
    SquashedGaussianPolicy,
)
from rl_training.models.batch_renorm import RenormMLP
from rl_training.models.encoders import DictEncoder, FlatEncoder
from rl_training.models.mlp import ACTIVATIONS, MLP, NoisyMLP
from rl_training.models.normalizer import ObservationNormalizer, RunningNorm
from rl_training.models.policies import StochasticPolicy
from rl_training.models.q_networks import QNetwork, QPolicy
from rl_training.models.trunk import Trunk
from rl_training.models.value_heads import CategoricalHead, QuantileHead


@dataclass
class Dense:
    """A dense layer: a product, then layer normalisation if `norm` is given, then an activation."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor
    activation: str | None = None
    norm: tuple[Tensor, Tensor] | None = None


@dataclass
class Network:
    """The parts of a policy that are written: its encoders, layers and head."""

    encoder: nn.Module
    layers: list[Dense]
    head: dict
    arrays: dict[str, Tensor] = field(default_factory=dict)


@torch.no_grad()
def write_npz(path: Path, program: PolicyProgram, spec: dict) -> None:
    """Writes the policy's layers as arrays, without pickle; raises ConfigError if it is more than dense layers."""
    policy = program.policy
    network = dense_network(policy)
    arrays, inputs = dict(network.arrays), []
    assert isinstance(policy.normalizer, ObservationNormalizer)
    norms = dict(zip(policy.normalizer.names, policy.normalizer.norms, strict=True))
    for key, leaf in encoded_leaves(program, network.encoder).items():
        name, norm = input_name(key), norms.get(key)
        inputs.append(
            {"name": name, "nums": one_hot(leaf), "start": leaf.start if isinstance(leaf, Discrete) else 0, "clip": 0.0}
        )
        if isinstance(norm, RunningNorm):
            inputs[-1]["clip"] = norm.clip
            mean, var = norm.mean.to(torch.float32), norm.var.to(torch.float32)
            arrays |= {f"mean.{name}": mean, f"scale.{name}": (var + 1e-8).rsqrt()}
    layers = []
    for index, layer in enumerate(network.layers):
        layers.append({"activation": layer.activation, "norm": layer.norm is not None})
        arrays |= {f"weight{index}": layer.weight, f"bias{index}": layer.bias}
        if layer.norm is not None:
            arrays |= {f"norm_scale{index}": layer.norm[0], f"norm_shift{index}": layer.norm[1]}
    action, bounds = action_of(policy, spec["outputs"][0]["dtype"])
    described = spec | {"network": {"inputs": inputs, "layers": layers, "head": network.head, "action": action}}
    plain = {name: array.detach().cpu().numpy() for name, array in (arrays | bounds).items()}
    with path.open("wb") as file:
        np.savez(file, policy=np.array(json.dumps(described)), **plain)  # pyrefly: ignore (no array is called so)


def encoded_leaves(program: PolicyProgram, encoder: nn.Module) -> dict[str, Leaf]:
    """Returns the observations that an encoder reads, by key and in its order."""
    match encoder:
        case FlatEncoder():
            return program.leaves
        case DictEncoder() if all(isinstance(part, FlatEncoder) for part in encoder.parts):
            return {name: program.leaves[name] for name in encoder.names}
    raise not_dense(f"an encoder of its own ({type(encoder).__name__})")


def one_hot(leaf: Leaf) -> list[int]:
    match leaf:
        case Discrete():
            return [leaf.num]
        case MultiDiscrete():
            return list(leaf.nums)
    return []


def action_of(policy: Policy, dtype: str) -> tuple[dict, dict[str, Tensor]]:
    """Returns how actions are converted to the environment's, and their bounds."""
    space, convert = policy.spec.action, policy.to_env
    if not isinstance(space, Box):
        return {"kind": "choice", "dtype": dtype, "start": space.start if isinstance(space, Discrete) else 0}, {}
    bounds = {"low": convert.low, "high": convert.high}
    if convert.own_dtype is not None:
        bounds |= {"own_low": convert.own_low, "own_high": convert.own_high}
    return {"kind": "box", "dtype": dtype, "rescaled": convert.squashed, "shape": list(space.shape)}, bounds


def dense_network(policy: Policy) -> Network:
    """Returns a policy's encoder, layers and head; raises ConfigError if it is more than dense layers."""
    match policy:
        case StochasticPolicy():
            trunk = policy.trunk
            encoder, shared = (trunk[0], layers_of(trunk[1])) if isinstance(trunk, Trunk) else (trunk, [])
            layers = [*shared, *layers_of(policy.head.net)]
            match policy.spec.action:
                case Box():
                    return Network(encoder, layers, gaussian(tanh_mean=False), {"log_std": policy.head.log_std})
                case MultiBinary():
                    return Network(encoder, layers, {"kind": "bits"})
                case MultiDiscrete(nums):
                    return Network(encoder, layers, {"kind": "categorical", "single": False, "nums": list(nums)})
                case Discrete(num=num):
                    return Network(encoder, layers, {"kind": "categorical", "single": True, "nums": [num]})
        case QPolicy(plausible=None, network=QNetwork(embedding=None) as network):
            arrays = {"atoms": network.head.atoms} if isinstance(network.head, CategoricalHead) else {}
            return Network(network.encoder, q_layers(network), {"kind": "values"}, arrays)
        case ClippedGaussianPolicy():
            low, high = policy.log_std_range
            log_std = low + (high - low) * policy.log_std_logit.sigmoid()
            encoder, layers = actor_layers(policy.network)
            return Network(encoder, layers, gaussian(tanh_mean=True), {"log_std": log_std})
        case DeterministicPolicy():
            return Network(*actor_layers(policy.network), {"kind": "deterministic"})
    if type(policy) is SquashedGaussianPolicy:
        head = {"kind": "squashed_gaussian", "log_std_range": list(LOG_STD_RANGE)}
        return Network(*actor_layers(policy.network), head)
    raise not_dense(f"a {type(policy).__name__}")


def gaussian(*, tanh_mean: bool) -> dict:
    return {"kind": "gaussian", "tanh_mean": tanh_mean}


def actor_layers(actor: Actor) -> tuple[nn.Module, list[Dense]]:
    if isinstance(actor, RenormActor):
        assert isinstance(actor.net, RenormMLP)
        return actor.encoder, renorm_layers(actor.net)
    return actor.encoder, layers_of(actor.net)


def layers_of(network: nn.Module) -> list[Dense]:
    if isinstance(network, NoisyMLP):  # acts by the means of its weights
        named = dict(network.named_parameters())
        parts = [(named[f"weight{i}"], named[f"bias{i}"]) for i in range(network.num_layers)]
        hidden = activation_name(network.activation)
        return [Dense(*part, hidden if i < len(parts) - 1 else None) for i, part in enumerate(parts)]
    if not isinstance(network, MLP):
        raise not_dense(f"a {type(network).__name__}")
    named, layers = dict(network.named_parameters()), []
    for i in range(sum(name.startswith("weight") for name in named)):
        hidden = i < network.num_hidden
        norm = (named[f"scale{i}"], named[f"shift{i}"]) if hidden and network.layer_norm else None
        layers.append(Dense(named[f"weight{i}"], named[f"bias{i}"], network.activation_fn if hidden else None, norm))
    return layers


def activation_name(function: object) -> str:
    return next(name for name, known in ACTIVATIONS.items() if known is function)


def renorm_layers(network: RenormMLP) -> list[Dense]:
    """Returns the layers of a single network with the normalisation before each folded into its weights."""
    layers, last = [], len(network.weights) - 1
    for index, (weight, bias, norm) in enumerate(zip(network.weights, network.biases, network.norms, strict=True)):
        factor = ((norm.var + norm.eps).rsqrt() * norm.scale)[0, 0]  # pyrefly: ignore (a BatchRenorm)
        offset = norm.shift[0, 0] - norm.mean[0, 0] * factor  # pyrefly: ignore
        folded = (weight[0] * factor[:, None]).T
        name = activation_name(network.activation) if index < last else None
        layers.append(Dense(folded, bias[0, 0] + weight[0].T @ offset, name))
    return layers


def q_layers(network: QNetwork) -> list[Dense]:
    """Returns the layers up to a value per action or its atoms; dueling streams and means of quantiles are linear."""
    shared = layers_of(network.trunk) if network.trunk is not None else []
    stream = layers_of(network.advantage)
    num, outputs = network.num_actions, network.outputs
    if network.value is not None:
        stream = joined_streams(stream, layers_of(network.value), num)
    if isinstance(network.head, QuantileHead):
        last = stream[-1]
        weight = last.weight.view(num, outputs, -1).mean(1)
        stream[-1] = Dense(weight, last.bias.view(num, outputs).mean(1))
    return [*shared, *stream]


def joined_streams(advantage: list[Dense], value: list[Dense], num: int) -> list[Dense]:
    """Returns dueling streams as one: hidden layers side by side, then value + advantage - mean advantage."""
    layers = []
    for index, (a, v) in enumerate(zip(advantage[:-1], value[:-1], strict=True)):
        if a.norm is not None:
            raise not_dense("dueling streams with layer norm")
        weight = torch.cat([a.weight, v.weight]) if index == 0 else torch.block_diag(a.weight, v.weight)
        layers.append(Dense(weight, torch.cat([a.bias, v.bias]), a.activation))
    a, v = advantage[-1], value[-1]
    weights, biases = a.weight.view(num, -1, a.weight.shape[1]), a.bias.view(num, -1)
    weight = (weights - weights.mean(0)).flatten(0, 1)
    bias = (biases - biases.mean(0) + v.bias).flatten()
    whole = v.weight.repeat(num, 1)
    return [*layers, Dense(torch.cat([weight, whole], 1) if layers else weight + whole, bias)]


def not_dense(what: str) -> ConfigError:
    return ConfigError(
        f"the policy has {what}, which is more than dense layers, and .npz holds only these: export to .onnx or .pt2"
    )
