"""Large products in compiled updates are computed by oneDNN, with the numbers of eager code up to rounding."""

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
    torch.manual_seed(0)
    x, scale = torch.randn(64, 200), torch.rand(1).item()  # no cache has this code
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
