"""What is recorded on a GPU; on machines without one, only that nothing is recorded."""

import pytest
import torch

from rl_training import SAC
from rl_training.runtime.compilation import build_block
from rl_training.runtime.cuda_graph import WARM_UP, CudaGraph

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_block_calls_its_steps_in_order_with_their_draws() -> None:
    calls = []

    def step(name: str):
        return lambda storage, draw: calls.append((name, storage, draw)) or {"loss": torch.tensor(1.0)}

    block = build_block([step("a"), step("b")], graphed=False)
    assert block("storage", [1, 2]) == [{"loss": torch.tensor(1.0)}, {"loss": torch.tensor(1.0)}]
    assert calls == [("a", "storage", 1), ("b", "storage", 2)]


@needs_gpu
def test_a_replayed_call_goes_on_where_the_last_one_ended() -> None:
    total = torch.zeros(3, device="cuda")

    def add(x: torch.Tensor) -> torch.Tensor:
        total.add_(x + torch.rand_like(x))
        return total * 2

    torch.cuda.manual_seed(0)
    expected = [add(torch.full((3,), float(n), device="cuda")) for n in range(WARM_UP + 4)]
    total.zero_()
    torch.cuda.manual_seed(0)
    graph = CudaGraph(add)
    replayed = [graph(torch.full((3,), float(n), device="cuda")) for n in range(WARM_UP + 4)]
    assert graph.graph is not None
    torch.testing.assert_close(replayed, expected, rtol=0, atol=0)


@needs_gpu
def test_recorded_updates_equal_eager_ones() -> None:
    results = []
    for compiled in (False, True):
        agent = SAC("Pendulum-v1", device="cuda", compile=compiled, gradient_steps=2, learning_starts=50, seed=0)
        agent.learn(50 + WARM_UP + 3, progress=False)
        results.append(dict(agent.algorithm.named_parameters()))
        agent.close()
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
