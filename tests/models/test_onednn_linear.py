"""Linear layers by oneDNN give torch's own numbers and gradients, up to rounding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.functional import onednn_products
from rl_training.functional.onednn_products import AVAILABLE, LEAST, pays
from rl_training.models.onednn_linear import OneDNNLinear, batched_products, linear_products

SIZES = (64, 190, 130)  # rows, inputs, outputs: just large enough


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor whose large products oneDNN computes faster."""
    if not AVAILABLE:
        pytest.skip("needs oneDNN: a torch for x86 or Arm CPUs, as pip installs it")
    monkeypatch.setattr(onednn_products, "faster_here", lambda: True)


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


def gradients(function: Callable, factors: list[Tensor]) -> list[Tensor]:
    """The function's value, its gradients, and gradients of the norm of these."""
    factors = [factor.clone().requires_grad_() for factor in factors]
    value = function(*factors)
    first = torch.autograd.grad(value.square().sum(), factors, create_graph=True)
    second = torch.autograd.grad(sum(grad.square().sum() for grad in first), factors)  # pyrefly: ignore
    return [value, *torch.autograd.grad(function(*factors).square().sum(), factors), *first, *second]


@pytest.mark.parametrize("num", [0, 3])
def test_large_products_and_gradients_of_gradients_are_those_of_plain_ones(num: int, *, faster: None) -> None:
    torch.manual_seed(0)
    rows, inputs, outputs = SIZES
    if num:
        factors = [torch.randn(num, rows, inputs), torch.randn(num, inputs, outputs) / inputs]
        fast, plain = batched_products, torch.bmm
    else:
        factors = [torch.randn(rows, inputs), torch.randn(outputs, inputs) / inputs, torch.randn(outputs)]
        fast, plain = linear_products, F.linear
    assert "Product" in type(fast(*[f.clone().requires_grad_() for f in factors]).grad_fn).__name__
    for found, wanted in zip(gradients(fast, factors), gradients(plain, [f.double() for f in factors]), strict=True):
        assert (found.double() - wanted).norm() < 1e-5 * wanted.norm()


def test_what_acts_and_what_is_small_is_computed_as_ever(faster: None) -> None:
    rows, inputs, outputs = SIZES
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(linear_products(x, weight, None), F.linear(x, weight))
        assert torch.equal(batched_products(x[None], weight.t()[None]), torch.bmm(x[None], weight.t()[None]))
    few = linear_products(x[:32], weight, None)
    assert "Product" not in type(few.grad_fn).__name__
    one_each = torch.vmap(linear_products, in_dims=(0, None, None))(x[:, None].expand(-1, rows, -1), weight, None)
    torch.testing.assert_close(one_each[:, 0], F.linear(x, weight), rtol=1e-4, atol=1e-4)


def test_products_are_left_to_mkl_where_it_is_as_fast_or_wanted(faster: None) -> None:
    assert pays(LEAST, 1, 1)
    assert not pays(LEAST - 1, 1, 1)
    with torch.backends.mkldnn.flags(enabled=False):
        assert not pays(LEAST, 1, 1)


@pytest.mark.parametrize(
    ("name", "wide", "faster"), [("AMD EPYC", True, True), ("AMD EPYC", False, False), ("Intel", True, False)]
)
def test_the_processor_decides(name: str, *, wide: bool, faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": wide, "cpu_name": name})
    assert onednn_products.faster_here.__wrapped__() == (faster and AVAILABLE and torch.backends.mkl.is_available())


def test_a_bias_with_gaps_is_added_as_it_is() -> None:
    if not AVAILABLE:
        pytest.skip("needs oneDNN: a torch for x86 or Arm CPUs, as pip installs it")
    x, weight, bias = torch.randn(6, 5), torch.randn(4, 5), torch.randn(8)[::2]
    torch.testing.assert_close(onednn_products.multiply(x, weight, bias), F.linear(x, weight, bias))


def test_rows_that_overlap_in_memory_and_forward_derivatives_are_as_ever(faster: None) -> None:
    windows = torch.randn(400).unfold(0, 200, 1)  # 201 rows of 200
    weight = torch.randn(64, 200, requires_grad=True)
    found, wanted = (
        torch.autograd.grad(function(windows, weight, None).square().sum(), weight)[0]
        for function in (linear_products, F.linear)
    )
    assert (found - wanted).norm() < 1e-5 * wanted.norm()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(windows, torch.ones_like(windows))
        assert torch.autograd.forward_ad.unpack_dual(linear_products(dual, weight, None)).tangent is not None
