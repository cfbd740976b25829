import math

import pytest
import torch
from torch import Tensor, nn

from rl_training.models import RenormMLP
from rl_training.models.batch_renorm import MAX_SCALE, MAX_SHIFT, BatchRenorm

EPS = 1e-3


def make(features: int = 4, *, warmup_steps: int = 100) -> BatchRenorm:
    return BatchRenorm(1, features, momentum=0.01, warmup_steps=warmup_steps)


def make_warm(features: int = 4, *, mean: float = 0.0, var: float = 1.0) -> BatchRenorm:
    """With running averages that say this."""
    norm = make(features)
    norm.steps.fill_(1_000)
    norm.mean.fill_(mean)
    norm.var.fill_(var)
    return norm


def batch(features: int = 4, *, seed: int = 1) -> Tensor:
    return 3 * torch.randn(1, 16, features, generator=torch.Generator().manual_seed(seed)) + 2


def test_running_averages_after_one_step() -> None:
    norm, x = make(), batch()
    norm(x, train=True)
    torch.testing.assert_close(norm.mean, 0.01 * x.mean(1, keepdim=True))
    torch.testing.assert_close(norm.var, 0.99 + 0.01 * x.var(1, keepdim=True))
    assert norm.steps.item() == 1


def test_it_is_batch_normalisation_until_it_is_warm() -> None:
    ours, theirs = make(warmup_steps=3), nn.BatchNorm1d(4, eps=EPS, momentum=0.01)
    with torch.no_grad():
        for mine, other in ((ours.scale, theirs.weight), (ours.shift, theirs.bias)):
            mine.normal_()
            other.copy_(mine.flatten())
    for seed in range(3):
        x = batch(seed=seed)
        # torch normalises by the variance over n and keeps that over n - 1; here both are the latter.
        expected = (x - x.mean(1)) / (x.var(1) + EPS).sqrt() * ours.scale + ours.shift
        found = ours(x, train=True)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(found[0], theirs(x[0]), rtol=0.1, atol=0.1)
    torch.testing.assert_close(ours.mean.flatten(), theirs.running_mean)
    torch.testing.assert_close(ours.var.flatten(), theirs.running_var)
    theirs.eval()
    torch.testing.assert_close(ours(x, train=False)[0], theirs(x[0]))
    ours(x, train=True)
    assert not torch.allclose(ours(x, train=True), found)  # now it is another


def test_a_warm_one_reads_batches_as_the_averages_do() -> None:
    norm, x = make_warm(mean=1.0, var=4.0), batch()
    expected = (x - 1) / math.sqrt(4 + EPS)  # nothing is clipped here
    torch.testing.assert_close(norm(x, train=False), expected)
    torch.testing.assert_close(norm(x, train=True), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1e4), (0.0, 1e-6), (100.0, 9.0), (-100.0, 9.0)])
def test_how_far_it_may_lead_away_is_limited(mean: float, var: float) -> None:
    norm, x = make_warm(1, mean=mean, var=var), batch(1)
    std = math.sqrt(x.var().item() + EPS)
    r = min(max(std / math.sqrt(var + EPS), 1 / MAX_SCALE), MAX_SCALE)
    d = min(max((x.mean().item() - mean) / math.sqrt(var + EPS), -MAX_SHIFT), MAX_SHIFT)
    assert r in (1 / MAX_SCALE, MAX_SCALE) or abs(d) == MAX_SHIFT
    torch.testing.assert_close(norm(x, train=True), (x - x.mean()) / std * r + d)
    assert (MAX_SCALE, MAX_SHIFT) == (3, 5)


def test_averages_and_corrections_are_constants_for_the_gradient() -> None:
    """The gradient is that of batch normalisation times r."""
    norm = make_warm(1, var=4.0).double()
    x = batch(1).double().requires_grad_()
    weight = torch.arange(16.0, dtype=torch.float64).view(1, 16, 1)
    (found,) = torch.autograd.grad((norm(x, train=True) * weight).sum(), x)
    r = (x.var() + EPS).sqrt() / math.sqrt(4 + EPS)
    plain = make(1).double()
    (expected,) = torch.autograd.grad((plain(x, train=True) * weight).sum(), x)
    torch.testing.assert_close(found, expected * r.detach())


def test_without_train_nothing_moves() -> None:
    network = RenormMLP(2, 4, (8,), 1, warmup_steps=0)
    network(batch()[0], train=True)
    before = {name: value.clone() for name, value in network.named_buffers()}
    network(batch(seed=2)[0], train=False)
    assert all(torch.equal(value, before[name]) for name, value in network.named_buffers())
    network(batch(seed=2)[0], train=True)
    assert not any(torch.equal(value, before[name]) for name, value in network.named_buffers())


def test_a_network_normalises_its_input_and_after_every_activation() -> None:
    torch.manual_seed(0)
    network, x = RenormMLP(2, 4, (8, 6), 1), batch()[0]
    assert [norm.scale.shape for norm in network.norms] == [(2, 1, 4), (2, 1, 8), (2, 1, 6)]
    h = ((x - x.mean(0)) / (x.var(0) + EPS).sqrt()).expand(2, -1, -1)
    for index in range(2):
        h = torch.relu(h @ network.weights[index] + network.biases[index])
        h = (h - h.mean(1, keepdim=True)) / (h.var(1, keepdim=True) + EPS).sqrt()
    expected = h @ network.weights[2] + network.biases[2]
    found = network(x, train=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network(x, slice(1), train=False), network(x, train=False)[:1])
    hidden = list(network.layers(x, train=False))
    assert [layer.shape for layer in hidden] == [(2, 16, 8), (2, 16, 6), (2, 16, 1)]


def test_members_keep_averages_of_their_own() -> None:
    torch.manual_seed(0)
    network = RenormMLP(2, 4, (8,), 1)
    network(batch()[0], train=True)
    first, second = network.norms[1].mean
    assert not torch.allclose(first, second)
    assert torch.equal(network.norms[0].mean[0], network.norms[0].mean[1])  # they share the input
