"""Vectorized calls: they must give what `torch.vmap` gives, and leave nothing behind when a function fails."""

from collections.abc import Sequence

import pytest
import torch

from rl_training.core import Loss
from rl_training.core.vmap import vmap


def loss(tensors: Sequence[torch.Tensor], batch: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> Loss:
    x, others = batch
    products = torch.nn.functional.linear(x, *tensors)
    error = (products - others["target"]).square()
    return Loss(
        error.mean(), {"loss": error.mean().detach(), "constant": torch.tensor(3.0)}, {"priority": error.sum(1)}
    )


def test_results_and_gradients_are_those_of_torchs_vmap() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(3, 5, 4, requires_grad=True), torch.randn(3, 5, requires_grad=True)]
    batch = (torch.randn(3, 7, 4), {"target": torch.randn(3, 7, 5)})
    ours, torchs = vmap(3, loss, tensors, batch), torch.vmap(loss)(tensors, batch)
    assert ours.metrics["constant"].tolist() == [3.0, 3.0, 3.0]
    expected = (*torchs.metrics.values(), *torchs.rows.values())
    for one, other in zip((*ours.metrics.values(), *ours.rows.values()), expected, strict=True):
        assert torch.equal(one, other)
    gradients = [torch.autograd.grad(result.value.sum(), tensors) for result in (ours, torchs)]
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_a_function_that_fails_or_draws_leaves_no_level_behind() -> None:
    with pytest.raises(RuntimeError, match="random"):
        vmap(2, lambda tensors, x: torch.rand_like(x), [], torch.zeros(2, 3))
    assert vmap(2, lambda tensors, x: x.sum(), [], torch.ones(2, 3)).tolist() == [3.0, 3.0]
    assert torch.zeros(2).tolist() == [0.0, 0.0]
