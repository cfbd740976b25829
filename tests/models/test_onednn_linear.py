"""Linear layers by oneDNN give torch's own numbers and gradients, up to rounding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rl_training.models.onednn_linear import AVAILABLE, OneDNNLinear


def results(layer: nn.Linear, x: Tensor) -> list[Tensor]:
    """The layer's outputs, and gradients for inputs, weights and biases that no two of them share."""
    x = x.clone().requires_grad_()
    out = layer(x)
    target = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * target).sum(), [x, *layer.parameters()])]


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("bias", [True, False])
def test_numbers_and_gradients_are_those_of_plain_products(rows: int, *, bias: bool) -> None:
    torch.manual_seed(0)
    layer, x = OneDNNLinear(70, 33, bias=bias), torch.randn(rows, 70)
    exact = nn.Linear(70, 33, bias=bias).double()
    exact.load_state_dict(layer.state_dict())
    for found, wanted in zip(results(layer, x), results(exact, x.double()), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_the_layer_is_computed_by_onednn_where_it_can_be() -> None:
    assert torch.backends.mkldnn.is_available() == AVAILABLE  # with every torch that the package may be installed with
    if not AVAILABLE:
        pytest.skip("needs oneDNN: a torch for x86 or Arm CPUs, as pip installs it")
    layer = OneDNNLinear(4, 2)
    assert type(layer(torch.ones(3, 4)).grad_fn).__name__ == "ProductBackward"
    assert type(layer(torch.ones(3, 5, 4)).grad_fn).__name__ != "ProductBackward"
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.ones(3, 4)).dtype == torch.bfloat16
    assert layer.double()(torch.ones(3, 4).double()).dtype == torch.float64
