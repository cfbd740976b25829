"""Ranks that share every batch learn what one learns from the whole of it, and their run is paused and resumed exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from rl_training import DQN, PPO, Agent, ConfigError, CrossQ, load
from rl_training.core import ALONE, Ranks
from rl_training.core.ranks import joined
from rl_training.distributed import data_parallel
from rl_training.experiment.checkpoint import checkpoint_difference
from tests.distributed import shares
from tests.distributed.together import run_together

ENVS = 4
DIED = 3  # the exit code of the second rank


class Two(Ranks):
    """The first of two that do not talk."""

    number = 2


def ppo(folder: Path | None = None, **settings: object) -> Agent:
    common: dict = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "normalize_observation": True, "compile": False}
    common |= {"n_envs": ENVS, "normalize_reward": True, "total_timesteps": 256, "seed": 3, "threads": 1}
    every = {"checkpoint": {"interval": 100}, "evaluation": {"interval": 120, "episodes": 2}}
    return PPO("CartPole-v1", run_dir=folder, **common | every | settings)


def dqn(folder: Path | None = None, **settings: object) -> Agent:
    common: dict = {"buffer_size": 120, "batch_size": 16, "prioritized": True, "learning_starts": 50, "compile": False}
    common |= {"n_envs": ENVS, "n_steps": 2, "total_timesteps": 256, "seed": 3, "threads": 1}
    return DQN("CartPole-v1", run_dir=folder, checkpoint={"interval": 100}, **common | settings)


AGENTS = {"ppo": ppo, "dqn": dqn}


def work_together(folder: Path) -> None:
    torch.set_num_threads(1)
    with data_parallel() as ranks:
        for case in shares.CASES:
            save_file(shares.run(case, ranks), folder / f"{case}-{ranks.rank}")
        for name, make in AGENTS.items():
            train(make(folder / name / "at once"))
            train(make(folder / name / "paused"), stop_at=150)
            train(Agent.resume(folder / name / "paused"))
        if ranks.rank == 1:
            os._exit(DIED)
        try:
            train(ppo(folder / "lost"))
        except ValueError as error:
            (folder / "reason").write_text(str(error), encoding="utf-8")


def train(agent: Agent, stop_at: int | None = None) -> None:
    agent.learn(stop_at=stop_at, progress=False)
    agent.close()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    run_together(work_together, folder, codes=[0, DIED])
    return folder


@pytest.mark.parametrize("case", shares.CASES)
def test_two_ranks_with_half_a_batch_each_learn_what_one_learns(case: str, done: Path) -> None:
    first, second = (load_file(done / f"{case}-{rank}") for rank in range(2))
    alone = shares.run(case, ALONE)
    assert first.keys() == second.keys() == alone.keys()
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name  # bit for bit
        torch.testing.assert_close(first[name], value, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: name + text)


def test_the_cases_stop_and_fail_as_they_are_meant_to() -> None:
    kl = shares.run("ppo_that_stops", ALONE)["said/approx_kl"]
    assert kl[0] <= 1.5 * 0.27 < kl[1]
    assert shares.run("not_finite", ALONE)["failed"]


@pytest.mark.parametrize("name", AGENTS)
def test_a_paused_run_of_two_ranks_goes_on_exactly(name: str, done: Path) -> None:
    whole, paused = (last_checkpoint(done / name / how) for how in ("at once", "paused"))
    assert whole.name == paused.name == "step-000000000256"
    assert checkpoint_difference(whole, paused) is None


def last_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def test_the_first_rank_records_the_whole_run(done: Path) -> None:
    run = done / "ppo" / "at once"
    assert yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))["env"]["n_envs"] == ENVS
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {episode["env"] for episode in episodes} == set(range(ENVS))
    assert all(episode["timesteps"] <= 256 for episode in episodes)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert result["status"] == "finished"
    assert result["episodes"] == len(episodes)
    assert result["total_timesteps"] == 256
    assert result["gradient_steps"] == 4 * 2 * 2  # as many as one process takes


def test_rows_that_were_saved_once_are_linked(done: Path) -> None:
    last = last_checkpoint(done / "dqn" / "at once")
    links = [file.stat().st_nlink for file in sorted(last.glob("rows-*"))]
    assert len(links) >= 4
    assert links[0] > 1  # of the first rank
    assert links[len(links) // 2] > 1  # of the second


def test_another_number_of_ranks_is_refused(done: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved by 2 ranks.*torchrun --nproc-per-node 2"):
        load(last_checkpoint(done / "ppo" / "at once")).learn(64, progress=False)
    train(ppo(tmp_path / "run"), stop_at=64)
    with joined(Two()), pytest.raises(ValueError, match=r"saved by one process.*without torchrun"):
        Agent.resume(tmp_path / "run").learn(progress=False)


def test_half_a_state_is_not_saved(tmp_path: Path) -> None:
    with joined(Two()):
        agent = ppo()
        agent.learn(64, progress=False)
    with pytest.raises(ValueError, match="complete only while they learn"):
        agent.save(tmp_path / "half")


def test_a_rank_that_dies_ends_the_other_with_a_reason(done: Path) -> None:
    reason = (done / "reason").read_text(encoding="utf-8")
    assert reason.startswith("another rank of this run ended")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ppo(n_envs=3), "env.n_envs=3 cannot be divided among 2 ranks.*env.n_envs=4"),
        (lambda: dqn(n_envs=1, train_freq=1), "env.n_envs=2, experience.train_freq=2 and algorithm.gradient_steps=2"),
        (lambda: ppo(batch_size=33), "algorithm.batch_size=33 cannot be divided among 2 ranks.*a multiple of 2"),
        (lambda: ppo(compile=True), "training.compile=true is for one process"),
        (lambda: ppo(sampling={"workers": 2}), "use sampling.workers=1, sampling.lag=0"),
        (lambda: ppo(device="cpu:0"), "training.device='cpu:0' is one device"),
        (lambda: CrossQ("Pendulum-v1", n_envs=2, train_freq=2), "crossq cannot be trained by 2 ranks.*statistics"),
    ],
)
def test_what_cannot_be_shared_is_refused(make: object, sentence: str) -> None:
    with joined(Two()), pytest.raises(ConfigError, match=sentence):
        make().learn(64, progress=False)  # pyrefly: ignore (each makes an agent)
