import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import rl_training
from rl_training import Agent
from rl_training.core import Policy
from rl_training.models import DenseLayer, dense_layers

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, None: lambda x: x}
SMALL = {"seed": 0, "learning_rate": 1e-3}
REPLAY = SMALL | {"buffer_size": 100, "net_arch": [8, 8]}


def make(name: str, **settings: object) -> Agent:
    return getattr(rl_training, name)("CartPole-v1", **settings)


def scores(layers: tuple[DenseLayer, ...], x: Tensor) -> Tensor:
    for layer in layers:
        x = ACTIVATIONS[layer.activation](F.linear(x, layer.weight, layer.bias))
    return x


@pytest.mark.parametrize(
    ("name", "settings", "widths"),
    [
        ("PPO", SMALL, [64, 64, 2]),
        ("PPO", SMALL | {"net_arch": {"shared": [6], "pi": [5], "vf": []}}, [6, 5, 2]),
        ("DQN", REPLAY, [8, 8, 2]),
        ("DiscreteSAC", REPLAY, [8, 8, 2]),
        ("PQN", SMALL | {"layer_norm": False}, [120, 84, 2]),
    ],
)
def test_the_layers_decide_as_the_policy_does(name: str, settings: dict, widths: list[int]) -> None:
    policy = make(name, **settings).algorithm.policy
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.normal_()
    layers = dense_layers(policy)
    obs = torch.randn(200, 4)
    assert [len(layer.bias) for layer in layers] == widths
    assert layers[-1].activation is None
    decided = policy.decide(obs).action
    assert torch.equal(scores(layers, obs).argmax(-1), decided)
    assert len(decided.unique()) == 2


def test_values_are_the_policys_own() -> None:
    policy = make("DQN", **REPLAY).algorithm.policy
    obs = torch.randn(20, 4)
    torch.testing.assert_close(scores(dense_layers(policy), obs), policy.q_values(obs).detach())


@pytest.mark.parametrize(
    ("name", "settings", "what"),
    [
        ("PPO", {"normalize_observation": True}, "ObservationNormalizer"),
        ("DuelingDQN", REPLAY, "QPolicy"),
        ("C51", REPLAY, "QPolicy"),
        ("IQN", REPLAY, "QPolicy"),
        ("NoisyDQN", REPLAY, "NoisyMLP"),
        ("PQN", {}, "MLP"),
        ("RecurrentPPO", {}, "RecurrentPolicy"),
    ],
)
def test_what_is_more_than_layers_is_refused(name: str, settings: dict, what: str) -> None:
    policy: Policy = make(name, **settings).algorithm.policy
    with pytest.raises(ValueError, match=f"the policy has a {what}, so it is more than dense layers"):
        dense_layers(policy)


def test_actions_without_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="Box actions have no scores"):
        dense_layers(rl_training.PPO("Pendulum-v1").algorithm.policy)
