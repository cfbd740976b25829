import math

import pytest
import torch
from torch import Tensor, nn

from rl_training.core import Box
from rl_training.models import (
    MLP,
    CategoricalHead,
    MeanHead,
    NoisyMLP,
    QNetwork,
    QuantileHead,
    ValueHead,
    dormant_share,
)
from rl_training.models.mlp import spread

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
HEADS = {
    "mean": (lambda: MeanHead("huber"), 0),
    "c51": (lambda: CategoricalHead(5, -1.0, 1.0), 0),
    "quantile": (lambda: QuantileHead(4, 1.0), 0),
    "iqn": (lambda: QuantileHead(4, 1.0), 6),
}
HALF_NORMAL = math.sqrt(2 / math.pi)  # E f(eps)^2 = E |eps| = 0.7979
every_head = pytest.mark.parametrize("kind", HEADS)


def head_of(kind: str) -> ValueHead:
    return HEADS[kind][0]()


def make(kind: str = "mean", net_arch: tuple[int, ...] = (8, 6), **options: object) -> QNetwork:
    torch.manual_seed(0)
    return QNetwork(OBS, 2, net_arch, head_of(kind), num_cosines=HEADS[kind][1], **options)


def observe(num: int = 7) -> tuple[Tensor, Tensor]:
    """Observations, and the fractions that only IQN reads."""
    gen = torch.Generator().manual_seed(1)
    return torch.randn(num, 3, generator=gen), torch.rand(num, 4, generator=gen)


@every_head
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("net_arch", [(), (8,), (8, 6)])
def test_output_has_the_heads_numbers_for_every_action(
    kind: str, dueling: bool, noisy: bool, net_arch: tuple[int, ...]
) -> None:
    network = make(kind, net_arch, dueling=dueling, noisy=noisy)
    z = network(*observe())
    assert z.shape == (7, 2, network.head.outputs)
    used = torch.autograd.grad(z.square().sum(), list(network.parameters()), allow_unused=True)
    assert all(grad is not None for grad in used)


@every_head
@pytest.mark.parametrize("noisy", [False, True])
def test_dueling_ignores_what_all_advantages_share(kind: str, noisy: bool) -> None:
    network, (obs, fractions) = make(kind, dueling=True, noisy=noisy), observe()
    before = network(obs, fractions, noise=False)
    bias = network.advantage.bias1
    with torch.no_grad():
        shift = 3.0 * torch.arange(1, network.outputs + 1)
        bias.add_(shift.repeat(2))  # the same for both actions, another for every output
    torch.testing.assert_close(network(obs, fractions, noise=False), before, rtol=0, atol=1e-5)
    with torch.no_grad():
        bias[: network.outputs] += 1.0  # for one action only
    after = network(obs, fractions, noise=False)
    torch.testing.assert_close(after - before, torch.tensor([0.5, -0.5]).view(1, 2, 1).expand_as(before))


@every_head
def test_the_mean_over_actions_is_the_value_stream(kind: str) -> None:
    network, (obs, fractions) = make(kind, dueling=True), observe()
    features = network.trunk(obs)
    if network.embedding is not None:
        features = features.unsqueeze(-2) * network.embedding(fractions)
    value = network.value(features)
    value = value.squeeze(-1) if network.embedding is not None else value
    torch.testing.assert_close(network(obs, fractions).mean(1), value)


def test_streams_share_all_but_the_last_hidden_layer() -> None:
    assert [p.shape for p in make(dueling=True).trunk.parameters()] == [(8, 3), (8,)]
    streams = make(dueling=True)
    for stream, outputs in ((streams.advantage, 2), (streams.value, 1)):
        assert [p.shape for p in stream.parameters()] == [(6, 8), (6,), (outputs, 6), (outputs,)]
    assert make().trunk is None
    assert make().value is None


def test_permuted_fractions_permute_the_quantiles() -> None:
    network, (obs, fractions) = make("iqn", dueling=True), observe()
    order = torch.tensor([2, 0, 3, 1])
    z = network(obs, fractions)
    torch.testing.assert_close(network(obs, fractions[:, order]), z[..., order])
    assert not torch.allclose(z, z[..., order])
    torch.testing.assert_close(network(obs, fractions[:, :1]), z[..., :1])  # any number of them


def test_the_root_noise_has_its_moments() -> None:
    torch.manual_seed(0)
    noise = torch.randn(400_000)
    assert spread(noise).square().mean().item() == pytest.approx(0.7979, abs=4e-3)
    assert spread(noise).mean().item() == pytest.approx(0.0, abs=5e-3)
    torch.testing.assert_close(spread(torch.tensor([-4.0, 0.0, 9.0])), torch.tensor([-2.0, 0.0, 3.0]))


def test_noise_has_the_variance_of_factorised_noise() -> None:
    torch.manual_seed(0)
    layer = NoisyMLP(3, (), 64, sigma=0.5)
    sigma = 0.5 / math.sqrt(3)
    assert torch.equal(layer.weight_sigma0, torch.full((64, 3), sigma))
    assert torch.equal(layer.bias_sigma0, torch.full((64,), sigma))
    x = torch.tensor([[1.0, -2.0, 0.5]])
    with torch.no_grad():
        outputs = torch.cat([layer(x, noise=True) for _ in range(6000)]) - layer(x, noise=False)
    expected = sigma**2 * (x.square().sum().item() * HALF_NORMAL**2 + HALF_NORMAL)
    assert outputs.mean().item() == pytest.approx(0.0, abs=0.01)
    assert outputs.var().item() == pytest.approx(expected, rel=0.04)


def test_noise_is_one_for_all_rows_and_of_rank_one() -> None:
    torch.manual_seed(0)
    layer = NoisyMLP(4, (), 5)
    same = layer(torch.ones(6, 4), noise=True)
    assert torch.equal(same, same[:1].expand(6, -1))
    rows = torch.cat([torch.eye(4), torch.zeros(1, 4)])
    noise = (layer(rows, noise=True) - layer(rows, noise=False)).detach()
    weights = noise[:4] - noise[4]  # sigma * f(in) f(out)
    singular = torch.linalg.svdvals(weights)
    assert singular[0] > 1e-3
    assert (singular[1:] < 1e-5).all()
    ratio = weights / noise[4]  # the output's factor is that of its bias
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio), rtol=1e-3, atol=1e-4)


@every_head
def test_without_noise_the_means_act(kind: str) -> None:
    network, (obs, fractions) = make(kind, noisy=True, dueling=True), observe()
    quiet = network(obs, fractions, noise=False)
    assert torch.equal(quiet, network(obs, fractions, noise=False))
    noisy = [network(obs, fractions) for _ in range(2)]  # noise is the default: a loss never forgets it
    assert not torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], quiet)
    for name, parameter in network.named_parameters():
        if "sigma" in name:
            parameter.data.zero_()
    torch.testing.assert_close(network(obs, fractions), quiet)


def test_the_size_of_the_noise_is_learned() -> None:
    network, (obs, fractions) = make(noisy=True, dueling=True), observe()
    sigmas = [p for name, p in network.named_parameters() if "sigma" in name]
    assert len(sigmas) == 8  # weight and bias of two layers of two streams
    assert all(grad.any() for grad in torch.autograd.grad(network(obs, fractions).square().sum(), sigmas))
    quiet = network(obs, fractions, noise=False).sum()
    grads = torch.autograd.grad(quiet, sigmas, allow_unused=True)
    assert all(grad is None for grad in grads)


def test_layer_norm_comes_before_the_activation() -> None:
    torch.manual_seed(0)
    network = MLP(3, (8, 6), 2, activation_fn="relu", layer_norm=True)
    reference = nn.Sequential(
        nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2)
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
        for ours, theirs in zip(network.parameters(), reference.parameters(), strict=True):
            theirs.copy_(ours)
    x = torch.randn(5, 3)
    torch.testing.assert_close(network(x), reference(x))


@every_head
@pytest.mark.parametrize("dueling", [False, True])
def test_dormant_share_counts_silent_units(kind: str, dueling: bool) -> None:
    network, (obs, _) = make(kind, (8, 4), dueling=dueling), observe(64)
    layers = list(network.activations(obs))
    widths = [layer.shape[-1] for layer in layers]
    assert widths == ([8] if kind == "iqn" else [8, 4, 4] if dueling else [8, 4])
    first = network.trunk if dueling or kind == "iqn" else network.advantage
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.fill_(0.1)
        first.weight0.zero_()
        first.bias0.fill_(1.0)
        first.bias0[:2] = -1.0
    share = dormant_share(iter(list(network.activations(obs))[:1]))
    assert share.item() == pytest.approx(2 / 8)
    assert dormant_share(iter([])).item() == 0
