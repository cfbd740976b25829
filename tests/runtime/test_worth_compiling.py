"""How a run is executed follows from its size and its device, never from a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import torch

import rl_training
from rl_training.api.build import expected_work, fastest_mode
from rl_training.core import ALONE
from rl_training.experiment.checkpoint import difference
from rl_training.runtime import Work, resolve_compile
from rl_training.runtime.worth_compiling import GAINS, Gain, acting_pays, kernels_pay

if TYPE_CHECKING:
    from rl_training.runtime import Trainer

LONG = Work(10**9, 10**9, tensors=1)


@pytest.mark.parametrize(
    ("setting", "work", "device", "expected"),
    [
        ("auto", Work(15_902, 10**9, True, 6, 4_610), "cpu", False),  # DQN: 0.50 ms per update
        ("auto", Work(15_903, 0, True, 6, 4_610), "cpu", True),
        ("auto", Work(3_757, 0, True, 13, 217_871), "cpu", False),  # SAC: 2.13 ms
        ("auto", Work(3_758, 0, True, 13, 217_871), "cpu", True),
        ("auto", Work(2_631, 0, True, 13, 10**9), "cpu", False),  # 3.04 ms, not those of the largest network
        ("auto", Work(204_545, 0), "cuda", "record"),
        ("auto", Work(204_546, 0), "cuda", True),  # 45 s
        ("auto", Work(100_000, 6 * 10**9), "cuda", "record"),  # 22 s and 21 s
        ("auto", Work(100_000, 7 * 10**9), "cuda", True),  # 22 s and 24.5 s
        ("auto", Work(74_999, 10**9, replayed=True), "cuda", "record"),
        ("auto", Work(75_001, 0, replayed=True), "cuda", True),  # 15 s
        ("record", LONG, "cuda", "record"),
        ("record", LONG, "cpu", False),  # there is nothing to record
        (True, Work(0, 0), "cpu", True),
        (True, Work(0, 0), "cuda", True),
        (False, LONG, "cuda", False),
    ],
)
def test_compiling_is_chosen_where_it_saves_more_than_it_costs(setting, work, device, expected) -> None:
    assert resolve_compile(setting, work, device) == expected


@pytest.mark.parametrize(
    ("num_steps", "mode", "kernels"),
    [
        (200_000_000, "record", False),
        (300_000_000, "record", True),  # 34.5 s layer by layer, 35 to 43 s compiled, 23 s and 5 to build them
        (500_000_000, "record", True),
        (600_000_000, True, True),
    ],
)
def test_small_networks_get_kernels_before_all_is_compiled(num_steps: int, mode: str | bool, kernels: bool) -> None:
    """As in docs/gpu.md: 4,096 environments x 32 steps, 4 epochs of 4 minibatches."""
    work = Work(num_steps // 131_072 * 48, num_steps * 5)
    assert resolve_compile("auto", work, "cuda", small_networks=True) == mode
    assert kernels_pay(mode, work) == kernels
    assert not kernels_pay(False, work)


@pytest.mark.parametrize(
    ("device", "net_arch", "num_steps", "expected"),
    [
        ("cuda", [64, 64], 245_000_000, True),
        ("cuda", [64, 64], 200_000_000, False),
        ("cuda", [256, 256], 245_000_000, False),
        ("cpu", [64, 64], 245_000_000, False),
    ],
)
def test_runs_and_stacks_ask_for_kernels_alike(
    device: str, net_arch: list[int], num_steps: int, expected: bool
) -> None:
    agent = rl_training.PPO("CartPole-v1", backend="native", net_arch=net_arch, compile="record")
    trainer = SimpleNamespace(device=torch.device(device), algorithm=agent.algorithm, ranks=ALONE)
    work = Work(num_steps // 131_072 * 48, num_steps * 5)
    mode = "record" if device == "cuda" else False
    assert fastest_mode(cast("Trainer", trainer), agent.config, work) == (mode, expected)


def test_decisions_on_the_host_are_compiled_where_there_are_many() -> None:
    assert not acting_pays("auto", Work(10**9, 0, acts=146_000))
    assert acting_pays("auto", Work(0, 0, acts=147_000))  # 2.2 s
    assert acting_pays(True, Work(0, 0))


@pytest.mark.compiled
@pytest.mark.usefixtures("traced", "short_blocks")
def test_few_decisions_stay_eager_unless_all_is_to_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GAINS, "cpu", Gain(0.0, 1.0))
    for setting, acting in (("auto", False), (True, True)):
        agent = rl_training.DQN("CartPole-v1", seed=0, learning_starts=4, net_arch=[8], threads=1, compile=setting)
        agent.learn(16, progress=False)
        assert agent.trainer.execution.mode is True
        assert (agent.trainer.collector.run_act is not agent.trainer.collector.act) == acting


def test_without_a_compiler_auto_compiles_nothing_and_true_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert resolve_compile("auto", LONG, "cpu") is False
    assert resolve_compile("auto", LONG, "cuda") == "record"
    with pytest.raises(ValueError, match=r"compile=True needs a C\+\+ compiler"):
        resolve_compile(True, LONG, "cpu")


def work_of(agent: rl_training.Agent) -> Work:
    return expected_work(agent.config, agent.algorithm)


def test_calls_are_updates_that_could_be_compiled() -> None:
    ppo = rl_training.PPO("CartPole-v1", n_envs=4, n_steps=32, batch_size=64, n_epochs=3, total_timesteps=1_000)
    assert work_of(ppo)[:3] == (7 * 3 * 2, 3_000, False)  # whole rollouts, epochs, minibatches
    dqn = rl_training.DQN("CartPole-v1", learning_starts=200, train_freq=4, gradient_steps=2, total_timesteps=1_000)
    assert work_of(dqn) == (
        400,
        400 * dqn.config.algorithm.batch_size,
        True,
        6,
        4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2,
        1_000,
    )
    trpo = rl_training.TRPO(
        "CartPole-v1", n_envs=4, n_steps=32, batch_size=64, n_critic_updates=5, total_timesteps=1_000
    )
    assert work_of(trpo).calls == 7 * 5 * 2  # its policy step takes second derivatives and is never compiled


def test_on_a_gpu_steps_of_native_environments_are_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"backend": "native", "n_envs": 4, "n_steps": 32, "batch_size": 128, "n_epochs": 1}
    agent = rl_training.PPO("CartPole-v1", total_timesteps=1_280, **settings)
    assert work_of(agent)[:3] == (10, 1_280, False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    on_gpu = agent.config.replace("training", device="cuda")
    assert expected_work(on_gpu, agent.algorithm)[:3] == (10 + 320, 2_560, False)


@pytest.mark.compiled
@pytest.mark.usefixtures("traced", "short_blocks")
def test_a_further_learn_that_is_long_compiles_and_so_does_a_loaded_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setitem(GAINS, "cpu", Gain(20.0, 1.0))  # pays from 20 updates on
    settings = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "n_epochs": 2, "net_arch": [8], "threads": 1}
    agent = rl_training.PPO("CartPole-v1", backend="native", seed=0, **settings)
    agent.learn(64, progress=False)
    assert agent.trainer.execution.mode is False
    agent.save(tmp_path / "short")
    states = []
    for one in (agent, rl_training.load(tmp_path / "short")):
        one.learn(128, progress=False)
        assert one.trainer.execution.mode is True
        assert one.trainer.executor(one.trainer.plan.phases[0]).steps
        states.append(dict(one.algorithm.state_dict()))
    assert difference(states[0], states[1]) is None
