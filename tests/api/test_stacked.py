"""Stacked seeds: members equal agents that are trained alone, in their weights, results and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import A2C, PPO, TRPO, ConfigError
from rl_training.api.agent import Agent
from rl_training.cli import main
from rl_training.runtime.executors import WholeIteration
from rl_training.runtime.stack import Stack

SMALL = {"backend": "native", "n_envs": 4, "n_steps": 16, "total_timesteps": 64 * 10 + 24}
LEARNER = {"batch_size": 24, "n_epochs": 4, "learning_rate": "lin_3e-3", "target_kl": 0.005, "gae_lambda": 0.8}
CASES = {
    "PPO": (PPO, "CartPole-v1", LEARNER),
    "PPO continuous, shared layers": (
        PPO,
        "Pendulum-v1",
        {"batch_size": 32, "net_arch": {"shared": [16], "pi": [8], "vf": [8]}},
    ),
    "A2C": (A2C, "CartPole-v1", {}),
}


def furthest(agent: Agent, other: Agent) -> float:
    """Returns the largest difference between two agents' tensors, those of optimizers included."""
    tensors = zip(agent.algorithm.state_dict().values(), other.algorithm.state_dict().values(), strict=True)
    return max((a.double() - b.double()).abs().max().item() for a, b in tensors)


def saved_bytes(run: Path) -> int:
    return sum(file.stat().st_size for file in run.glob("checkpoints/**/*") if file.is_file())


def counts(agent: Agent) -> tuple:
    progress = agent.progress
    return (
        progress.env_steps,
        progress.gradient_steps,
        progress.iterations,
        progress.episodes,
        list(agent.trainer.recent),
    )


@pytest.mark.parametrize("name", CASES)
def test_members_equal_single_runs(name: str) -> None:
    kind, env, settings = CASES[name]
    together = rl_training.stacked(kind, env, seeds=(3, 1, 2), **SMALL, **settings)
    results = together.learn(progress=False)
    for agent, result in zip(together.agents, results, strict=True):
        alone = kind(env, seed=agent.config.training.seed, **SMALL, **settings)
        expected = alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent) == counts(alone)
        assert (result.seed, result.status, result.episodes) == (expected.seed, "finished", expected.episodes)
        mine, theirs = agent.full_state(), alone.full_state()
        assert torch.equal(mine["rng"]["cpu"], theirs["rng"]["cpu"])
        assert torch.equal(mine["experience"]["order"], theirs["experience"]["order"])
        assert torch.allclose(mine["collector"]["obs"], theirs["collector"]["obs"], atol=1e-4)


def test_the_kl_stop_is_each_members_own() -> None:
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=range(3), **SMALL, **LEARNER)
    together.learn(progress=False)
    steps = [agent.progress.gradient_steps for agent in together.agents]
    assert len(set(steps)) > 1
    assert max(steps) < 3 * 4 * 10  # minibatches, epochs, iterations


def test_an_iteration_as_a_whole_gives_the_same(monkeypatch) -> None:
    """As it is recorded on a GPU."""
    build = Stack.__init__

    def whole(self: Stack, *arguments) -> None:
        build(self, *arguments)
        self.executor = WholeIteration(self.executor, self.collector, record=False)

    monkeypatch.setattr(Stack, "__init__", whole)
    settings = {"batch_size": 24, "n_epochs": 3}
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=range(2), **SMALL, **settings)
    together.learn(progress=False)
    for agent in together.agents:
        alone = PPO("CartPole-v1", seed=agent.config.training.seed, **SMALL, **settings)
        alone.learn(progress=False)
        assert furthest(agent, alone) < 1e-5
        assert counts(agent)[:4] == counts(alone)[:4]
        mine, theirs = agent.full_state()["collector"], alone.full_state()["collector"]
        assert all(torch.allclose(mine[key], theirs[key], atol=1e-4) for key in ("obs", "returns", "lengths"))


def test_a_member_is_resumed_alone_from_its_own_files(tmp_path: Path) -> None:
    settings = SMALL | LEARNER | {"evaluation": {"interval": 256, "episodes": 2}, "checkpoint": {"interval": 128}}
    stack = rl_training.stacked(PPO, "CartPole-v1", seeds=(1, 2), run_dir=tmp_path / "stack", **settings)
    paused = stack.learn(stop_at=384, progress=False)
    assert [result.status for result in paused] == ["paused", "paused"]
    PPO.resume(tmp_path / "stack" / "seed2").learn(progress=False)
    PPO("CartPole-v1", seed=2, run_dir=tmp_path / "alone", **settings).learn(progress=False)
    mine, theirs = (
        json.loads((run / "result.json").read_text()) for run in (tmp_path / "stack/seed2", tmp_path / "alone")
    )
    same = ("total_timesteps", "gradient_steps", "episodes", "status", "eval_mean_return")
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}
    agents = [rl_training.load(run) for run in (tmp_path / "stack/seed2", tmp_path / "alone")]
    assert furthest(*agents) < 1e-5
    sizes = [saved_bytes(run) for run in (tmp_path / "stack/seed2", tmp_path / "alone")]
    assert sizes[0] < 1.1 * sizes[1]  # without the other member


def test_a_member_whose_numbers_are_not_finite_leaves_the_others(tmp_path: Path) -> None:
    together = rl_training.stacked(PPO, "CartPole-v1", seeds=range(2), run_dir=tmp_path, **SMALL, batch_size=32)
    next(together.agents[0].algorithm.parameters()).data.fill_(torch.nan)
    with pytest.raises(rl_training.NonFiniteError):
        together.learn(progress=False)
    status = [json.loads((tmp_path / f"seed{seed}" / "result.json").read_text())["status"] for seed in range(2)]
    assert status == ["failed", "finished"]


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        (TRPO, {"batch_size": 16}, "TRPO"),
        (rl_training.RecurrentPPO, {"batch_size": 16}, "RecurrentPPO"),
        (rl_training.SAC, {"env": "Pendulum-v1", "n_steps": 1, "train_freq": 4}, "SAC"),
        (PPO, {"backend": "gymnasium"}, "host"),
        (PPO, {"normalize_observation": True}, "normalize_observation"),
        (PPO, {"normalize_reward": True}, "normalize_reward"),
    ],
)
def test_what_cannot_be_stacked_is_refused_in_one_sentence(kind, changes: dict, named: str) -> None:
    settings = SMALL | changes
    with pytest.raises(ConfigError, match=named) as refusal:
        rl_training.stacked(kind, settings.pop("env", "CartPole-v1"), seeds=range(2), **settings)
    assert re.search(r": train the seeds one after the other", str(refusal.value))


def test_members_differ_in_their_seeds_only() -> None:
    agents = [PPO("CartPole-v1", seed=seed, gamma=gamma, **SMALL) for seed, gamma in ((0, 0.9), (1, 0.8))]
    with pytest.raises(ConfigError, match=r"algorithm.gamma is 0\.9 for one member of the stack and 0\.8 for another"):
        rl_training.Stacked(agents)


def test_the_command_line_trains_a_stack(tmp_path: Path, capsys) -> None:
    flags = [
        "--set",
        "env.backend=native",
        "--set",
        "training.total_timesteps=512",
        "--quiet",
        "--run-dir",
        str(tmp_path / "runs"),
    ]
    assert main(["train", "ppo/cartpole", "--seeds", "0..2", "--stacked", *flags]) == 0
    said = capsys.readouterr().out
    assert "mean " in said
    seeds = json.loads((tmp_path / "runs" / "summary.json").read_text())["seeds"]
    assert seeds == [0, 1, 2]
