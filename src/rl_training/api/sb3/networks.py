"""Networks of Stable-Baselines3 under our names: their widths, and where each of our tensors comes from.

A `Plan` maps the name of each of our tensors to a function of the tensors of an archive. The same plan converts
weights, and the averages that optimizers keep of each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
Plan = dict[str, Callable[[Tensors], Tensor]]
Layer = tuple[str, ...]  # names of linear layers whose outputs are joined to those of one of ours
CONVOLUTIONS = ("0", "2", "4")


class MissingLayersError(ValueError):
    """Error for an archive without the layers that a policy of its kind has."""


def layers_in(tensors: Tensors, prefix: str) -> list[Layer]:
    """Returns the linear layers below a prefix, such as "q_net.q_net", in order."""
    return [(name,) for name in numbered(tensors, prefix, "weight")]


def norms_in(tensors: Tensors, prefix: str) -> list[str]:
    """Returns the layers of batch renormalisation below a prefix, in order."""
    return numbered(tensors, prefix, "ra_mean")


def numbered(tensors: Tensors, prefix: str, part: str) -> list[str]:
    """Returns the names `prefix.number` of layers that have the tensor `part`, by number."""
    found = re.compile(rf"{re.escape(prefix)}\.(\d{{1,4}})\.{part}")
    return [
        f"{prefix}.{number}" for number in sorted(int(match[1]) for match in map(found.fullmatch, tensors) if match)
    ]


def widths(tensors: Tensors, layers: Sequence[Layer]) -> list[int]:
    """Returns the number of outputs of every layer; raises MissingLayersError if a layer is not there, or empty."""
    for layer in layers:
        for name in layer:
            if f"{name}.weight" not in tensors or tensors[f"{name}.weight"].ndim != 2:
                raise MissingLayersError(f"has no layer {name}")
            if not tensors[f"{name}.weight"].numel():
                raise MissingLayersError(f"has a layer {name} without weights")
    return [sum(len(tensors[f"{name}.weight"]) for name in layer) for layer in layers]


def copy_of(name: str) -> Callable[[Tensors], Tensor]:
    return lambda tensors: tensors[name]


def joined(layer: Layer, part: str) -> Callable[[Tensors], Tensor]:
    return lambda tensors: torch.cat([tensors[f"{name}.{part}"] for name in layer])


def dense(ours: str, layers: Sequence[Layer]) -> Plan:
    """Returns the plan of an `MLP` called `ours` for the layers of an archive."""
    parts = [(index, layer, part) for index, layer in enumerate(layers) for part in ("weight", "bias")]
    return {f"{ours}.{part}{index}": joined(layer, part) for index, layer, part in parts}


def ensemble(ours: str, members: Sequence[Sequence[Layer]]) -> Plan:
    """Returns the plan of an `EnsembleMLP` called `ours`, whose members are networks of an archive."""
    plan: Plan = {}
    for index, layers in enumerate(zip(*members, strict=True)):
        weights, biases = ([joined(layer, part) for layer in layers] for part in ("weight", "bias"))
        plan[f"{ours}.weights.{index}"] = lambda t, weights=weights: torch.stack([read(t).T for read in weights])
        plan[f"{ours}.biases.{index}"] = lambda t, biases=biases: torch.stack([read(t)[None] for read in biases])
    return plan


def renorms(ours: str, members: Sequence[Sequence[str]]) -> Plan:
    """Returns the plan of the batch renormalisation in a `RenormMLP` called `ours`."""
    plan: Plan = {}
    for index, layers in enumerate(zip(*members, strict=True)):
        for mine, theirs in {"scale": "scale", "shift": "bias", "mean": "ra_mean", "var": "ra_var"}.items():
            names = [f"{layer}.{theirs}" for layer in layers]
            plan[f"{ours}.norms.{index}.{mine}"] = lambda t, names=names: torch.stack([t[name][None] for name in names])
        counts = [f"{layer}.steps" for layer in layers]  # all the same
        plan[f"{ours}.norms.{index}.steps"] = lambda t, counts=counts: torch.stack(
            [t[n].float() for n in counts]
        ).amax()
    return plan


def pictures(ours: str, theirs: str) -> Plan:
    """Returns the plan of a `NatureCNN` called `ours` for a features extractor of an archive."""
    plan: Plan = {}
    for part in ("weight", "bias"):
        plan |= {f"{ours}.convolutions.{i}.{part}": copy_of(f"{theirs}.cnn.{i}.{part}") for i in CONVOLUTIONS}
        plan[f"{ours}.head.0.{part}"] = copy_of(f"{theirs}.linear.0.{part}")
    return plan


def sees_pictures(tensors: Tensors, extractor: str) -> bool:
    return f"{extractor}.cnn.0.weight" in tensors
