"""Large products in compiled updates are computed by oneDNN, with the numbers of eager code up to rounding."""

import secrets

import pytest
import torch
from torch import Tensor

from rl_training.functional import onednn_products
from rl_training.runtime.compilation import compile_graph

CPU = torch.device("cpu")


@pytest.mark.compiled
def test_products_of_compiled_updates_are_those_of_eager_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    if not onednn_products.AVAILABLE:
        pytest.skip("needs oneDNN: a torch for x86 or Arm CPUs, as pip installs it")
    monkeypatch.setattr(onednn_products, "faster_here", lambda: True)
    from rl_training.runtime import onednn_pass

    replaced: list[torch.Size] = []
    replacement = onednn_pass.replacement
    monkeypatch.setattr(
        onednn_pass, "replacement", lambda node: (replaced.append(node.meta["val"].shape), replacement(node))[1]
    )
    scale = 0.5 + secrets.randbelow(10**6) / 10**7  # no cache has this code
    torch.manual_seed(0)
    x = torch.randn(64, 200)
    layer, critics = torch.nn.Linear(200, 128), torch.nn.Parameter(torch.randn(2, 128, 200) / 10)
    parameters = [*layer.parameters(), critics]

    def losses(x: Tensor) -> tuple[Tensor, ...]:
        h = layer(x).relu()
        loss = scale * (torch.bmm(h.expand(2, -1, -1), critics) + layer(x[:8]).sum()).square().mean()
        return (loss.detach(), *torch.autograd.grad(loss, parameters))

    run = compile_graph(losses, CPU, learns=True)
    for found, wanted in zip(run(x), losses(x), strict=True):
        assert (found - wanted).norm() < 1e-5 * wanted.norm()
    # Forwards, back to the hidden units and to the weights of both layers; not the eight rows.
    assert sorted(replaced) == sorted(
        torch.Size(size) for size in ((64, 128), (128, 200), (2, 64, 200), (2, 64, 128), (2, 128, 200))
    )
    assert not run.failed  # pyrefly: ignore (of a compiled function)


@pytest.mark.parametrize("shape", [(), (1,), (128,), (1, 128), (64, 1), (64, 128)], ids=str)
def test_whatever_is_added_to_a_product_is_added(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass alone, on a graph of torch's own operators, which then runs as it is."""
    if not onednn_products.AVAILABLE:
        pytest.skip("needs oneDNN: a torch for x86 or Arm CPUs, as pip installs it")
    from torch._inductor.virtualized import V
    from torch._subclasses.fake_tensor import FakeTensorMode

    from rl_training.runtime.onednn_pass import OneDNNProducts

    monkeypatch.setattr(onednn_products, "faster_here", lambda: True)
    given = [torch.randn(shape), torch.randn(64, 200), torch.randn(200, 128)]
    graph, mode = torch.fx.Graph(), FakeTensorMode()
    places = [graph.placeholder(f"x{index}") for index in range(3)]
    node = graph.call_function(torch.ops.aten.addmm.default, tuple(places))
    graph.output(node)
    with mode:
        for place, value in zip(places, given, strict=True):
            place.meta["val"] = torch.empty(value.shape)
        node.meta["val"] = torch.empty(64, 128)
    with V.set_fake_mode(mode):
        OneDNNProducts()(graph)
    assert torch.ops.rl_training.onednn_product.default in {one.target for one in graph.nodes}
    found = torch.fx.GraphModule({}, graph)(*given)
    torch.testing.assert_close(found, torch.addmm(*given), rtol=1e-4, atol=1e-4)
