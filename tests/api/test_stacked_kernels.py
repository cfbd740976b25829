"""Stacks whose small networks are one operator, as in single runs: kernels on a GPU, its reference on the CPU."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import rl_training
from rl_training import DQN, PPO, SAC
from rl_training.api.agent import Agent
from rl_training.models import MLP
from rl_training.runtime.worth_compiling import CompileMode
from tests.api.test_stacked import REPLAY, SMALL, counts, furthest
from tests.gpu import needs_gpu

FUSED = SMALL | {"total_timesteps": 64 * 3, "batch_size": 32, "n_epochs": 2, "net_arch": [16, 16]}


@pytest.fixture
def operator_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fused networks are computed by their operator on the CPU, too; lists how many rows its eager calls had."""
    calls, layer_by_layer = [], MLP.forward

    def forward(net: MLP, x: torch.Tensor) -> torch.Tensor:
        if net.products is None:
            return layer_by_layer(net, x)
        if not torch.compiler.is_compiling():
            calls.append(x.shape[0])
        return net.at_once(x, net.products)

    monkeypatch.setattr(MLP, "forward", forward)
    return calls


def fuse_stacks(monkeypatch: pytest.MonkeyPatch, mode: CompileMode, fuses: bool = True) -> None:
    monkeypatch.setattr(import_module("rl_training.api.stacked"), "fastest_mode", lambda *given: (mode, fuses))


@pytest.mark.parametrize(
    ("kind", "env", "settings"),
    [
        (PPO, "CartPole-v1", FUSED),
        (SAC, "Pendulum-v1", REPLAY | {"net_arch": [16, 16]}),
        (DQN, "CartPole-v1", REPLAY | {"net_arch": [16, 16], "target_update_interval": 24}),
    ],
)
def test_a_stack_with_small_networks_as_one_call_equals_single_runs(
    kind: type[Agent], env: str, settings: dict, monkeypatch: pytest.MonkeyPatch, operator_calls: list[int]
) -> None:
    """As on a GPU; members that are asked alone, as by an evaluation, are computed layer by layer."""
    fuse_stacks(monkeypatch, mode=False)
    together = rl_training.stacked(kind, env, seeds=(3, 1), **settings)
    together.learn(progress=False)
    assert operator_calls
    operator_calls.clear()
    for agent in together.agents:
        alone = kind(env, seed=agent.config.training.seed, **settings)
        alone.learn(progress=False)
        agent.evaluate(1)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent) == counts(alone)
    assert not operator_calls


@pytest.mark.usefixtures("traced", "short_blocks")
def test_a_traced_stack_with_small_networks_as_one_call_equals_single_runs(
    monkeypatch: pytest.MonkeyPatch, operator_calls: list[int]
) -> None:
    settings = FUSED | {"n_envs": 2, "n_steps": 8, "total_timesteps": 48, "batch_size": 8}
    fuse_stacks(monkeypatch, mode=True)
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=(3, 1), **settings)
    together.learn(progress=False)
    assert operator_calls
    for agent in together.agents:
        alone = PPO("CartPole-v1", seed=agent.config.training.seed, compile=False, **settings)
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5


@needs_gpu
@pytest.mark.parametrize("mode", ["record", pytest.param(True, marks=pytest.mark.compiled)])
def test_kernels_of_small_networks_give_what_layers_give(mode: CompileMode, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FUSED | {"n_envs": 20, "total_timesteps": 320 * 6, "adam_eps": 1e-3, "device": "cuda"}
    kernels = import_module("rl_training.models.small_mlp_kernels")
    forward, shapes = kernels.forward, set()

    def seen(x: torch.Tensor, *parameters: torch.Tensor, **how: object) -> torch.Tensor:
        shapes.add(tuple(x.shape))
        return forward(x, *parameters, **how)

    monkeypatch.setattr(kernels, "forward", seen)
    stacks = []
    for fuses in (True, False):
        shapes.clear()
        fuse_stacks(monkeypatch, mode, fuses)
        stacks.append(rl_training.stacked(PPO, "CartPole-v1", seeds=(3, 1), **settings))
        stacks[-1].learn(progress=False)
        assert ({(2, 20, 4), (2, 32, 4)} <= shapes) is fuses  # acting and updates
        assert bool(shapes) is fuses
    for ours, layers in zip(stacks[0].agents, stacks[1].agents, strict=True):
        assert furthest(ours, layers) < 1e-3
