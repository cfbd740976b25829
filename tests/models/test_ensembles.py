import pytest
import torch
from torch import Tensor, nn

from rl_training.core import Box
from rl_training.models import Critics, EnsembleMLP
from rl_training.models.ensembles import products

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)


def make(num: int = 3, outputs: int = 1, **options: object) -> EnsembleMLP:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(num, 4, (8, 6), outputs, **options)
    with torch.no_grad():
        for parameter in (*ensemble.scales, *ensemble.shifts):
            parameter.normal_()
    return ensemble


def rows(num: int = 5) -> Tensor:
    return torch.randn(num, 4, generator=torch.Generator().manual_seed(1))


def copied(ensemble: EnsembleMLP, member: int) -> nn.Sequential:
    """One network of an ensemble, built from torch's own layers."""
    layers: list[nn.Module] = []
    for index, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
        layer = nn.Linear(weight.shape[1], weight.shape[2])
        with torch.no_grad():
            layer.weight.copy_(weight[member].T)
            layer.bias.copy_(bias[member, 0])
        layers.append(layer)
        if index < len(ensemble.weights) - 1:
            if len(ensemble.scales):
                norm = nn.LayerNorm(weight.shape[2])
                with torch.no_grad():
                    norm.weight.copy_(ensemble.scales[index][member, 0])
                    norm.bias.copy_(ensemble.shifts[index][member, 0])
                layers.append(norm)
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("outputs", [1, 5])
def test_an_ensemble_is_its_networks_one_by_one(layer_norm: bool, outputs: int) -> None:
    ensemble, x = make(outputs=outputs, layer_norm=layer_norm), rows()
    together = ensemble(x)
    assert together.shape == (3, 5, outputs)
    gradients = torch.autograd.grad(together.square().sum(), list(ensemble.parameters()))
    named = dict(zip((name for name, _ in ensemble.named_parameters()), gradients, strict=True))
    for member in range(3):
        single = copied(ensemble, member)
        torch.testing.assert_close(together[member], single(x))
        single(x).square().sum().backward()
        linear = [layer for layer in single if isinstance(layer, nn.Linear)]
        norms = [layer for layer in single if isinstance(layer, nn.LayerNorm)]
        for index, layer in enumerate(linear):
            torch.testing.assert_close(named[f"weights.{index}"][member], layer.weight.grad.T)
            torch.testing.assert_close(named[f"biases.{index}"][member, 0], layer.bias.grad)
        for index, norm in enumerate(norms):
            torch.testing.assert_close(named[f"scales.{index}"][member, 0], norm.weight.grad)
            torch.testing.assert_close(named[f"shifts.{index}"][member, 0], norm.bias.grad)
        assert bool(norms) == layer_norm


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("members", [slice(1), slice(1, 3), torch.tensor([2, 0])], ids=str)
def test_asking_some_members_gives_their_slices(members: Tensor | slice, layer_norm: bool) -> None:
    ensemble, x = make(layer_norm=layer_norm), rows()
    torch.testing.assert_close(ensemble(x, members), ensemble(x)[members])


def test_the_sum_for_one_output_is_the_matrix_product() -> None:
    gen = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(3, 4, 1, generator=gen), torch.randn(3, 1, 1, generator=gen)
    for x in (torch.randn(3, 5, 4, generator=gen), rows()):
        expected = x @ weight + bias
        torch.testing.assert_close(products(x, weight, bias), expected)
        wide = products(x, weight.expand(-1, -1, 2), bias)  # by the other way
        torch.testing.assert_close(wide, expected.expand(-1, -1, 2))


def test_networks_start_apart_and_within_the_bounds_of_torch() -> None:
    ensemble = make(4)
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        bound = weight.shape[1] ** -0.5
        assert weight.abs().max() <= bound
        assert bias.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.25)
        assert not torch.allclose(weight[0], weight[1])


def test_dropout_scales_what_it_leaves_and_is_off_without_train() -> None:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(2, 4, (4096,), 1, dropout=0.25)
    quiet, _ = ensemble.layers(rows(1), train=False)
    dropped, _ = ensemble.layers(rows(1))
    alive = quiet > 0
    kept = dropped[alive] > 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    torch.testing.assert_close(dropped[alive][kept], quiet[alive][kept] / 0.75)
    assert torch.equal(ensemble(rows(), train=False), ensemble(rows(), train=False))
    assert not torch.equal(ensemble(rows()), ensemble(rows()))


def test_dropout_comes_before_the_layer_norm() -> None:
    """DroQ's order: whatever is dropped, what follows has mean 0 and variance 1."""
    torch.manual_seed(0)
    ensemble = EnsembleMLP(1, 4, (64,), 1, layer_norm=True, dropout=0.5, activation_fn="leaky_relu")
    layer, _ = ensemble.layers(rows())
    before = torch.where(layer < 0, layer / 0.01, layer)  # undoes the activation
    torch.testing.assert_close(before.mean(-1), torch.zeros(1, 5), rtol=0, atol=1e-4)
    torch.testing.assert_close(before.std(-1, correction=0), torch.ones(1, 5), rtol=0, atol=1e-3)


def test_without_dropout_no_random_number_is_drawn() -> None:
    with_none, without = make(dropout=0.0), make()
    state = torch.get_rng_state()
    assert torch.equal(with_none(rows()), without(rows()))
    assert torch.equal(torch.get_rng_state(), state)


def test_critics_read_observation_and_action() -> None:
    torch.manual_seed(0)
    critics = Critics(OBS, 2, lambda inputs: EnsembleMLP(3, inputs, (8,), 2))
    obs, action = torch.randn(6, 3), torch.randn(6, 2)
    q = critics(obs, action)
    assert q.shape == (3, 6, 2)
    torch.testing.assert_close(q, critics.net(torch.cat([obs, action], -1)))
    assert not torch.allclose(q, critics(obs, -action))
    assert not torch.allclose(q, critics(-obs, action))
    torch.testing.assert_close(critics(obs, action, slice(1)), q[:1])
    (hidden,) = critics.activations(obs, action)
    assert hidden.shape == (6, 3 * 8)
    (first, _) = critics.net.layers(torch.cat([obs, action], -1))
    torch.testing.assert_close(hidden[:, 8:16], first[1])
