"""What a process has set for torch changes nothing of what is learned, and is as before afterwards."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from rl_training import PPO, SAC, Agent, load

RUNS = {
    "ppo": lambda: PPO("Pendulum-v1", n_steps=16, batch_size=16, n_epochs=1, normalize_observation=True),
    "sac": lambda: SAC("Pendulum-v1", learning_starts=8, batch_size=8, buffer_size=100, net_arch=[16]),
}


@contextmanager
def float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager]] = {
    "float64": float64,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "another device": lambda: torch.device("meta"),
}


def live(build: Callable[[], Agent], folder) -> list[torch.Tensor]:
    """A whole life of an agent, and what became of its weights and actions."""
    agent = build()
    agent.learn(32, progress=False)
    agent.save(folder)
    loaded = load(folder)
    loaded.learn(32, progress=False)
    action = torch.tensor(loaded.predict([0.1, 0.2, 0.3])[0], device="cpu", dtype=torch.float32)
    mean = torch.tensor(loaded.evaluate(1).mean, device="cpu", dtype=torch.float32)
    return [action, mean, *(p.detach() for p in loaded.algorithm.parameters())]


@functools.cache
def plain(run: str) -> list[torch.Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        return live(RUNS[run], Path(folder) / "m")


@pytest.mark.parametrize("kind", SURROUNDINGS)
@pytest.mark.parametrize("run", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_surroundings_change_nothing(run: str, kind: str, tmp_path) -> None:
    expected = plain(run)
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    with SURROUNDINGS[kind]():
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        ours = live(RUNS[run], tmp_path / "m")
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (grad, inference)
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    assert (torch.get_default_dtype(), torch.get_default_device()) == (dtype, device)
