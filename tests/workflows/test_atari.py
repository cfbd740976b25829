"""A run in an Atari game: what it logs is of whole games with their own rewards, and every result says by which rules."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rl_training import PPO
from rl_training.cli import main
from rl_training.envs.ale_protocol import PROTOCOLS
from rl_training.runtime import Callback, Trainer
from tests import needs

needs.import_package("ale_py")

LIMIT = 250
KWARGS = {"protocol": "dqn", "size": 36, "sticky": 0.25}
PROTOCOL = asdict(PROTOCOLS["dqn"]) | {"size": 36, "sticky": 0.25, "max_steps": LIMIT, "frame_stack": 4}


class Learned(Callback):
    """Notes the rewards of the rollouts that are learned from."""

    interval = 64

    def __init__(self) -> None:
        self.rewards: set[float] = set()

    def on_interval(self, trainer: Trainer) -> None:
        steps = trainer.collector.latest
        self.rewards |= set(steps.reward.unique().tolist())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Learned]:
    """Two games of Q*bert, whose every reward is at least 25, at a time."""
    folder, learned = tmp_path_factory.mktemp("atari") / "run", Learned()
    agent = PPO(
        "ALE/Qbert-v5",
        n_envs=2,
        n_steps=32,
        batch_size=64,
        n_epochs=1,
        net_arch=[],
        kwargs=KWARGS,
        max_episode_steps=LIMIT,
        run_dir=folder,
        evaluation={"episodes": 2, "n_envs": 2, "deterministic": False, "epsilon": 0.05},
    )
    agent.learn(1_088, callbacks=[learned], progress=False)
    agent.close()
    return folder, learned


def test_learning_sees_signs_and_the_log_has_the_rewards_of_the_game(run: tuple[Path, Learned]) -> None:
    folder, learned = run
    assert learned.rewards == {0.0, 1.0}
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert len(episodes) >= 4
    assert all(episode["return"] % 25 == 0 for episode in episodes)
    assert max(episode["return"] for episode in episodes) >= 100
    assert max(episode["length"] for episode in episodes) == LIMIT


def test_the_result_and_a_later_evaluation_carry_the_protocol(run: tuple[Path, Learned], capsys) -> None:
    folder, _ = run
    result = json.loads((folder / "result.json").read_text())
    said = {"episodes": 2, "deterministic": False, "epsilon": 0.05, "max_steps": 30_000, "env": PROTOCOL}
    assert result["protocol"] == said
    assert result["eval_mean_return"] % 12.5 == 0
    assert main(["eval", str(folder), "--episodes", "1", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["protocol"] == said | {"episodes": 1, "deterministic": True}
    assert again["returns"][0] % 25 == 0
