"""Compiled code draws the numbers that eager code draws, also where nothing but the program says which comes first."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch._inductor.fx_passes.control_dependencies import control_deps
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from rl_training.runtime.compilation import compile_graph
from rl_training.runtime.draw_order import DrawsInOrder
from tests.gpu import needs_gpu

pytestmark = pytest.mark.usefixtures("compiled_indeed")


def mixed(x: Tensor) -> tuple[Tensor, Tensor]:
    """What is drawn first is used last; what is drawn last, together with the first product."""
    late = torch.randn_like(x)
    first = torch.relu(x @ x)
    dropped = torch.native_dropout(first, 0.5, True)[0] @ x
    torch.native_dropout(x, 0.5, True)  # of no use, but a draw
    again = F.layer_norm(torch.native_dropout(dropped, 0.5, True)[0], x.shape[-1:])
    noise = torch.randn_like(x)
    return torch.relu(x @ x + noise), (again + late) * torch.rand_like(x)


@pytest.mark.compiled
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_compiled_draws_are_in_the_programs_order(device: str) -> None:
    x = torch.linspace(-1, 1, 64 * 64, device=device).reshape(64, 64)
    torch.manual_seed(0)
    expected = mixed(x)
    torch.manual_seed(0)
    found = compile_graph(mixed, torch.device(device))(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_every_draw_waits_for_the_one_before() -> None:
    graph = make_fx(mixed)(torch.ones(4, 4))
    DrawsInOrder()(graph.graph)
    graph.graph.lint()
    draws = [
        node
        for node in graph.graph.nodes
        if node.target is control_deps or node.target is torch.ops.aten.randn_like.default
    ]
    assert [node.target is control_deps for node in draws] == [False, True, True, True, True, True]
    for earlier, later in pairwise(draws):
        (waited_for,) = later.args[0]
        assert waited_for is earlier or waited_for.args[0] is earlier
        assert isinstance(waited_for.meta["val"], Tensor)
