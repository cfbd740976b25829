import pytest
import torch
from torch import nn

from rl_training.models import MLP

ACTIVATIONS = {
    "tanh": nn.Tanh(),
    "relu": nn.ReLU(),
    "elu": nn.ELU(),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "leaky_relu": nn.LeakyReLU(),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_equals_a_sequence_of_layers(name: str) -> None:
    torch.manual_seed(0)
    mlp = MLP(3, (5, 4), 2, activation_fn=name)
    activation = ACTIVATIONS[name]
    reference = nn.Sequential(mlp.layers[0], activation, mlp.layers[1], activation, mlp.layers[2])
    x = torch.randn(7, 3)
    torch.testing.assert_close(mlp(x), reference(x))
    assert mlp.features_dim == 2


def test_without_outputs_the_last_layer_is_activated() -> None:
    mlp = MLP(3, (5,), activation_fn="relu")
    assert (mlp(torch.randn(20, 3, generator=torch.Generator().manual_seed(0))) >= 0).all()
    assert mlp.features_dim == 5


def test_without_hidden_layers_it_is_linear() -> None:
    mlp, x = MLP(3, (), 2), torch.randn(4, 3)
    torch.testing.assert_close(mlp(x), x @ mlp.layers[0].weight.T)


def test_orthogonal_start_has_its_gains_and_no_bias() -> None:
    torch.manual_seed(0)
    mlp = MLP(8, (6, 6), 4, output_gain=0.01)
    for layer, gain in zip(mlp.layers, (2**0.5, 2**0.5, 0.01), strict=True):
        expected = gain**2 * torch.eye(layer.out_features)
        torch.testing.assert_close(layer.weight @ layer.weight.T, expected, rtol=1e-4, atol=1e-6)
        assert not layer.bias.any()


def test_without_ortho_init_it_starts_as_torch_does() -> None:
    torch.manual_seed(0)
    mlp = MLP(3, (5,), 2, ortho_init=False)
    torch.manual_seed(0)
    layers = [nn.Linear(3, 5), nn.Linear(5, 2)]
    for ours, theirs in zip(mlp.layers, layers, strict=True):
        assert torch.equal(ours.weight, theirs.weight)
        assert torch.equal(ours.bias, theirs.bias)
