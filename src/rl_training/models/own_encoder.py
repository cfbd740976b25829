"""Encoders that users write: a class or function of the observation space, behind one contract.

It makes a torch module with `features_dim`, whose `forward` takes observations with exactly one leading dimension, the
rows, and returns [rows, features_dim]. Rows of several dimensions (time and environment) are laid out around it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from rl_training.core import Dict, Space, Tree, tree_leaves, tree_map
from rl_training.core.entry_points import find

EncoderFactory = Callable[..., nn.Module]  # of a space
ENCODERS: dict[str, EncoderFactory] = {}  # handed over in Python, by the name that stands in the config


class Encoder(nn.Module):
    """A base class of modules that map observations to `features_dim` numbers per row."""

    features_dim: int


class OwnEncoder(Encoder):
    """A wrapper that gives a user's encoder rows with one leading dimension, and restores the leading shape.

    Raises a ValueError if the user's encoder does not return floating-point features [rows, features_dim].
    """

    def __init__(self, space: Space, network: nn.Module, features_dim: int, name: str) -> None:
        super().__init__()
        self.space, self.own, self.features_dim, self.name = space, network, features_dim, name
        self.register_load_state_dict_pre_hook(under_its_new_name)

    def forward(self, obs: Tree) -> Tensor:
        if isinstance(self.space, Dict):  # others may be there that are for others
            assert isinstance(obs, dict)
            obs = {name: obs[name] for name in self.space.spaces}
        leading = leading_shape(obs, self.space)
        if len(leading) != 1:
            obs = tree_map(lambda x: x.reshape(-1, *x.shape[len(leading) :]), obs)
        features = self.own(obs)
        self.check(features, leading.numel())
        return features if len(leading) == 1 else features.reshape(*leading, self.features_dim)

    def check(self, features: object, num_rows: int) -> None:
        if not isinstance(features, Tensor) or not features.is_floating_point():
            kind = str(features.dtype) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(
                f"encoder={self.name!r} returned {kind}: it must return a tensor of floating-point numbers"
            )
        if features.shape != (num_rows, self.features_dim):
            raise ValueError(
                f"encoder={self.name!r} returned the shape {list(features.shape)} for {num_rows} rows: with "
                f"features_dim={self.features_dim} it must be {[num_rows, self.features_dim]}"
            )


def under_its_new_name(module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
    """Renames, in place, a state dict's entries below `prefix` from older checkpoints, which had no `OwnEncoder`."""
    ours = [prefix + name for name in module.state_dict()]
    if any(name not in state for name in ours):
        for name in [n for n in state if n.startswith(prefix) and n not in ours]:
            state[f"{prefix}own.{name.removeprefix(prefix)}"] = state.pop(name)


def leading_shape(obs: Tree, space: Space) -> torch.Size:
    """Returns the dimensions that an observation has before those of `space`, such as (time, env).

    For a Dict, the first entry of `obs` is compared with the first of `space`.
    """
    first = next(iter(space.spaces.values())) if isinstance(space, Dict) else space
    shape = next(tree_leaves(obs)).shape
    return shape[: len(shape) - len(first.shape)]


def build_own(name: str, space: Space) -> OwnEncoder:
    """Returns an OwnEncoder around the module that a user's class or function, `name`, makes of `space`.

    Raises a ValueError if it cannot be called so, or makes no torch module with an int `features_dim`.
    """
    network = call_factory(name, find(name, ENCODERS, "encoder"), space)
    if not isinstance(network, nn.Module):
        raise ValueError(f"encoder={name!r} must return a torch module, not {type(network).__name__}")
    features_dim = getattr(network, "features_dim", None)
    if not isinstance(features_dim, int) or isinstance(features_dim, bool) or features_dim < 1:
        raise ValueError(
            f"encoder={name!r} must return a torch module with `features_dim`, how many numbers it gives for a row; it is "
            f"{features_dim!r}: set self.features_dim in __init__"
        )
    if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
        raise ValueError(f"encoder={name!r} has lazy layers, whose sizes are not known: use nn.Linear and the like")
    return OwnEncoder(space, network, features_dim, name)


def call_factory(name: str, factory: object, space: Space) -> object:
    if not callable(factory):
        raise ValueError(f"encoder={name!r} is a {type(factory).__name__}: name a class or a function")
    try:
        inspect.signature(factory).bind(space)
    except TypeError as error:
        raise ValueError(
            f"encoder={name!r} does not take the observation space as its one argument ({error}): write def __init__(self, "
            "space)"
        ) from error
    except ValueError:  # some functions written in C do not say what they take
        pass
    try:
        return factory(space)
    except TypeError as error:
        if inspect.isbuiltin(factory):  # written in C; what a user's own code raises is shown as it is
            raise ValueError(f"encoder={name!r} does not take an observation space ({error})") from error
        raise
