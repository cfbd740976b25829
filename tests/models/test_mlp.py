import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.models import MLP

ACTIVATIONS = {
    "tanh": nn.Tanh(),
    "relu": nn.ReLU(),
    "elu": nn.ELU(),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "leaky_relu": nn.LeakyReLU(),
}


def layers_of(mlp: MLP) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of every layer, in order."""
    parameters = list(mlp.parameters())
    return list(zip(parameters[::2], parameters[1::2], strict=True))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_equals_a_sequence_of_layers(name: str) -> None:
    torch.manual_seed(0)
    mlp = MLP(3, (5, 4), 2, activation_fn=name)
    first, second, last = layers_of(mlp)
    x = torch.randn(7, 3)
    hidden = ACTIVATIONS[name](F.linear(ACTIVATIONS[name](F.linear(x, *first)), *second))
    torch.testing.assert_close(mlp(x), F.linear(hidden, *last))
    assert mlp.features_dim == 2


def test_without_outputs_the_last_layer_is_activated() -> None:
    mlp = MLP(3, (5,), activation_fn="relu")
    assert (mlp(torch.randn(20, 3, generator=torch.Generator().manual_seed(0))) >= 0).all()
    assert mlp.features_dim == 5


def test_without_hidden_layers_it_is_linear() -> None:
    mlp, x = MLP(3, (), 2), torch.randn(4, 3)
    ((weight, _),) = layers_of(mlp)
    torch.testing.assert_close(mlp(x), x @ weight.T)


def test_orthogonal_start_has_its_gains_and_no_bias() -> None:
    torch.manual_seed(0)
    mlp = MLP(8, (6, 6), 4, output_gain=0.01)
    for (weight, bias), gain in zip(layers_of(mlp), (2**0.5, 2**0.5, 0.01), strict=True):
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), rtol=1e-4, atol=1e-6)
        assert not bias.any()


def test_without_ortho_init_it_starts_as_torch_does() -> None:
    torch.manual_seed(0)
    mlp = MLP(3, (5,), 2, ortho_init=False)
    torch.manual_seed(0)
    layers = [nn.Linear(3, 5), nn.Linear(5, 2)]
    for (weight, bias), theirs in zip(layers_of(mlp), layers, strict=True):
        assert torch.equal(weight, theirs.weight)
        assert torch.equal(bias, theirs.bias)
