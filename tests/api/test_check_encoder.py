"""`check_encoder` names every breach, and finds none in what keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from torch import Tensor, nn

from rl_training.core import Box, Discrete
from rl_training.envs import EnvConfig
from rl_training.models import FlatEncoder, NatureCNN, check_encoder

FLAT = gym.spaces.Box(-1, 1, (3,))
IMAGE = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)


class Linear(nn.Module):
    """Keeps the contract; what breaks it derives from it."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.layer, self.features_dim = nn.Linear(space.size, 8), 8

    def forward(self, obs: Tensor) -> Tensor:
        return self.layer(obs)


class Robot(nn.Module):
    """An image, a position, a choice and bits; written for one leading dimension, as convolutions want it."""

    def __init__(self, space: gym.spaces.Dict) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 4, 8, 4), nn.ReLU(), nn.Flatten())
        self.features_dim = 4 * 8 * 8 + 2 + 4 + 3

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        image = self.image(obs["image"].permute(0, 3, 1, 2).float() / 255)
        goal = nn.functional.one_hot(obs["goal"], 4).float()
        return torch.cat([image, obs["position"], goal, obs["flags"].float()], -1)


ROBOT = gym.spaces.Dict(
    {
        "image": IMAGE,
        "position": gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
        "goal": gym.spaces.Discrete(4, start=1),
        "flags": gym.spaces.MultiBinary(3),
    }
)


@pytest.mark.parametrize(
    ("encoder", "where"),
    [
        (Linear, FLAT),
        (Linear, "CartPole-v1"),
        (Linear, gym.make("CartPole-v1")),
        (Linear, CartPoleEnv),
        (Linear, lambda: gym.make("CartPole-v1")),
        (Linear, EnvConfig(id="CartPole-v1")),
        (Linear, Box((3,), (-1.0,) * 3, (1.0,) * 3)),
        (lambda space: Linear(space), FLAT),
        (f"{__name__}:Linear", FLAT),
        (NatureCNN, IMAGE),
        (FlatEncoder, gym.spaces.MultiDiscrete([2, 3])),
        (FlatEncoder, Discrete(5)),
        (Robot, ROBOT),
    ],
)
def test_what_keeps_the_contract_passes(encoder: object, where: object) -> None:
    check_encoder(encoder, where)


def breach(**changes: Callable) -> type[Linear]:
    return type("Breach", (Linear,), changes)


def built(change: Callable[[nn.Module], object]) -> Callable[[Box], nn.Module]:
    def build(space: Box) -> nn.Module:
        network = Linear(space)
        change(network)
        return network

    return build


SHARED = Linear(Box((3,), (-1.0,) * 3, (1.0,) * 3))
BREACHES = {
    "no features_dim": (lambda space: nn.Linear(3, 3), "set self.features_dim"),
    "features_dim is a property of none": (built(lambda n: setattr(n, "features_dim", 0)), "it is 0"),
    "not a module": (lambda space: lambda x: x, "must return a torch module, not function"),
    "takes no space": (lambda: None, "does not take the observation space"),
    "finished": (SHARED, "is a finished Linear: pass the class"),
    "shared": (lambda space: SHARED, "called twice, it gives the same parameters"),
    "lazy": (built(lambda n: setattr(n, "layer", nn.LazyLinear(8))), "has lazy layers"),
    "wrong shape": (breach(forward=lambda s, x: s.layer(x)[:, :5]), r"returned the shape \[6, 5\] for 6 rows"),
    "one vector for all": (breach(forward=lambda s, x: s.layer(x).mean(0)), r"returned the shape \[8\]"),
    "squeezed": (breach(forward=lambda s, x: s.layer(x).squeeze()), r"returned the shape \[8\] for 1 rows"),
    "integers": (breach(forward=lambda s, x: s.layer(x).long()), "returned torch.int64"),
    "two results": (breach(forward=lambda s, x: (s.layer(x), None)), "returned tuple"),
    "not finite": (breach(forward=lambda s, x: s.layer(x) / 0), "not finite"),
    "dropout": (breach(forward=lambda s, x: nn.functional.dropout(s.layer(x))), "must be deterministic"),
    "batch norm": (
        built(lambda n: setattr(n, "layer", nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8)))),
        "(?s)encoding changes the network itself.*depend on the other rows",
    ),
    "batch mean": (breach(forward=lambda s, x: s.layer(x - x.mean(0))), "depend on the other rows"),
    "in place": (breach(forward=lambda s, x: s.layer(x.mul_(2))), "changes the observation it is given"),
    "detached": (breach(forward=lambda s, x: s.layer(x).detach()), "no gradient reaches"),
    "plain tensor": (built(lambda n: setattr(n, "scale", [torch.ones(1)])), r"self\.scale holds a tensor"),
    "list of layers": (built(lambda n: setattr(n, "layers", [nn.Linear(1, 1)])), r"self\.layers holds a layer"),
}


@pytest.mark.parametrize("kind", BREACHES)
def test_a_breach_is_named(kind: str) -> None:
    encoder, message = BREACHES[kind]
    with pytest.raises(ValueError, match=message):
        check_encoder(encoder, FLAT)


def test_it_leaves_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    check_encoder(Linear, FLAT)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_no_space_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a space nor an environment"):
        check_encoder(Linear, 5)
