"""What happens where compiling fails: the run goes on eagerly, says why once, and hides no mistake of the code itself."""

import logging
import signal
from pathlib import Path

import pytest
import torch

from rl_training import PPO
from rl_training.runtime import compilation
from rl_training.runtime.compilation import OrEager, compile_graph, compiler_options, end_workers

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "REASONS", set())


def trained(*, compiled: bool) -> list[list[float]]:
    agent = PPO(
        "CartPole-v1",
        n_envs=2,
        n_steps=16,
        batch_size=16,
        n_epochs=2,
        net_arch=[8],
        seed=3,
        threads=1,
        compile=compiled,
    )
    agent.learn(96, progress=False)
    return [parameter.flatten().tolist() for parameter in agent.algorithm.parameters()]


def test_training_goes_on_with_a_broken_compiler_and_gives_the_eager_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # where nothing is compiled yet
    monkeypatch.setenv("CXX", "/bin/false")
    with torch._inductor.config.patch({"cpp.cxx": (None, "/bin/false")}):  # as torch reads it when it is imported
        weights = trained(compiled=True)
    assert weights == trained(compiled=False)
    said = [line for line in caplog.messages if line.startswith("compiling failed, so the code runs eagerly")]
    assert len(said) == 1, caplog.text  # although acting and learning both failed to compile
    assert "No working C++ compiler found" in said[0]


def test_what_cannot_be_one_graph_runs_eagerly_and_the_reason_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum().item() > 0 else x

    with caplog.at_level(logging.WARNING, "rl_training"):
        run = compile_graph(branches, CPU)
        assert [run(torch.full((2,), value)).tolist() for value in (1.0, -1.0)] == [[2.0, 2.0], [-1.0, -1.0]]
        assert compile_graph(branches, CPU)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert len(caplog.records) == 1
    assert "slower" in caplog.text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_compiler_knows_every_option_that_it_is_given(device: str) -> None:
    options = set(compiler_options(torch.device(device))) - {"guard_filter_fn"}  # which torch.compile itself takes
    assert not options - set(torch._inductor.list_options())  # torch refuses others: no compiled run would start


def test_a_mistake_in_the_code_itself_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    run = compile_graph(lambda x: x @ torch.ones(3), CPU)
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        run(torch.ones(4))
    assert "eagerly" not in caplog.text
    assert not run.failed


def test_where_code_is_not_compiled_ahead_of_time_the_compilers_errors_alone_are_caught() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise torch._dynamo.exc.BackendCompilerFailed(refuses, RuntimeError("no ptxas"), None)

    def breaks(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of memory")

    run = OrEager(refuses, torch.exp)
    assert run(torch.zeros(1)).item() == 1.0
    assert run.failed
    with pytest.raises(RuntimeError, match="out of memory"):
        OrEager(breaks, torch.exp)(torch.zeros(1))


def test_waiting_workers_of_the_compiler_are_ended_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers

    pool = AsyncCompile.process_pool()
    end_workers()
    assert pool.process.wait(60) == -signal.SIGKILL
    shutdown_compile_workers()  # as torch does at exit; it also forgets the pool
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
