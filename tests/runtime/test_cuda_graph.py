"""A recorded call: what it reads, what it changes and what it returns."""

import gc

import pytest
import torch

import rl_training
from rl_training.runtime.cuda_graph import WARM_UP, CudaGraph
from rl_training.runtime.executors import RecordedMinibatches
from tests.gpu import needs_gpu


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
def test_inputs_of_several_types_are_taken_at_every_call() -> None:
    graph = CudaGraph(lambda tree, flag: {"sum": tree["x"] + tree["n"], "flag": ~flag})
    for number in range(WARM_UP + 3):
        x, n = torch.full((2,), 0.5, device="cuda"), torch.full((2,), number, device="cuda")
        result = graph({"x": x, "n": n}, n % 2 == 0)
        assert result["sum"].tolist() == [0.5 + number] * 2
        assert result["flag"].tolist() == [number % 2 == 1] * 2
    assert graph.graph is not None


@needs_gpu
def test_a_call_on_a_stream_of_its_own_is_recorded_there() -> None:
    weight, stream = torch.randn(64, 64, device="cuda"), torch.cuda.Stream()
    graph = CudaGraph(lambda x: x @ weight)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP + 2):
            x = torch.randn(8, 64, device="cuda")
            result = graph(x)
        stream.synchronize()
        torch.testing.assert_close(result, x @ weight)
    assert graph.graph is not None


@needs_gpu
def test_a_call_that_cannot_be_recorded_draws_on_as_if_called() -> None:
    def draw() -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()  # spoils the recording
        return torch.rand(3, device="cuda")

    torch.cuda.manual_seed(0)
    expected = [draw() for _ in range(WARM_UP + 3)]
    torch.cuda.manual_seed(0)
    graph, other = CudaGraph(draw), CudaGraph(lambda: torch.rand(3, device="cuda"))
    drawn = [graph() for _ in range(WARM_UP + 3)]
    assert graph.refused
    torch.testing.assert_close(drawn, expected, rtol=0, atol=0)
    torch.cuda.manual_seed(0)
    torch.testing.assert_close([other() for _ in range(WARM_UP + 3)], expected, rtol=0, atol=0)
    assert other.graph is not None  # recordings that come later are not spoiled


@needs_gpu
def test_no_garbage_is_collected_while_a_call_is_recorded() -> None:
    enabled = []

    def double(x: torch.Tensor) -> torch.Tensor:
        enabled.append(gc.isenabled())
        return x * 2

    graph = CudaGraph(double)
    for _ in range(WARM_UP + 1):
        graph(torch.ones(1, device="cuda"))
    assert enabled == [True] * WARM_UP + [False]
    assert gc.isenabled()


@needs_gpu
def test_the_first_replay_draws_what_comes_next_although_recording_is_slow_to_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch puts the generators' places to zero when recording begins, on a stream that nobody waits for."""
    begin = torch.cuda.CUDAGraph.capture_begin

    def begin_late(self: torch.cuda.CUDAGraph, *arguments: object, **named: object) -> None:
        torch.cuda._sleep(100_000_000)  # cycles: longer than recording takes, shorter than the pause below
        begin(self, *arguments, **named)

    def draw() -> torch.Tensor:
        torch.cuda._sleep(200_000_000)
        return torch.rand(3, device="cuda")

    torch.cuda.manual_seed(0)
    expected = [draw() for _ in range(WARM_UP + 2)]
    torch.cuda.manual_seed(0)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin_late)
    graph = CudaGraph(draw)
    replayed = [graph() for _ in range(WARM_UP + 2)]
    assert graph.graph is not None
    torch.testing.assert_close(replayed, expected, rtol=0, atol=0)


@needs_gpu
def test_recorded_minibatches_of_a_rollout_equal_eager_ones() -> None:
    settings = {"n_steps": 24, "batch_size": 20, "n_epochs": 3, "n_envs": 2, "net_arch": [16], "seed": 1}
    agents = [rl_training.PPO("CartPole-v1", device="cuda", compile=how, **settings) for how in (False, "record")]
    for agent in agents:
        agent.learn(480, progress=False)
    (executor,) = agents[1].trainer.executors.values()
    assert isinstance(executor, RecordedMinibatches)
    assert {size for _, size in executor.recordings} == {20, 8}
    assert all(recording.graph is not None for recording in executor.recordings.values())
    for one, other in zip(*(agent.algorithm.parameters() for agent in agents), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
