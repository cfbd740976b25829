"""Cloning the best episodes alone: a view of the dataset that a config can ask for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import BC, DQN, Agent, ConfigError, Dataset, load
from rl_training.cli import main
from rl_training.core import Box, Discrete, Spec
from tests.offline import QUICK, state_of

SPEC = Spec(Box((2,), (-1.0,) * 2, (1.0,) * 2), Discrete(2))


def nine_bad_one_good() -> Dataset:
    """Of ten episodes of equal length the sixth earns more, and it alone takes action 1."""
    rng, good = np.random.default_rng(0), np.arange(200) // 20 == 5
    return Dataset.from_arrays(
        obs=rng.uniform(-1, 1, (200, 2)),
        action=good.astype(np.int64),
        reward=good.astype(np.float32),
        terminated=np.arange(200) % 20 == 19,
        truncated=np.zeros(200, bool),
        spec=SPEC,
    )


def clone(dataset: Dataset, /, updates: int = 40, **settings: object) -> Agent:
    agent = BC(dataset=dataset, **QUICK | settings)
    agent.learn(total_updates=updates, progress=False)
    return agent


def probability_of_one(agent: Agent) -> float:
    with torch.no_grad():
        return float(agent.algorithm.policy.distribution(torch.zeros(1, 2)).log_probs.exp()[0, 1])


def test_the_best_tenth_is_cloned_and_not_the_rest() -> None:
    data = nine_bad_one_good()
    chosen = clone(data, data={"top": 0.1})
    assert probability_of_one(chosen) > 0.9
    assert probability_of_one(clone(data)) < 0.2
    by_hand = clone(data.top(0.1))
    assert all(map(torch.equal, state_of(chosen)["algorithm"].values(), state_of(by_hand)["algorithm"].values()))
    assert chosen.dataset is data  # whose sha256 is what a resumed run compares


def test_two_tenths_hold_the_next_episodes_too() -> None:
    data = nine_bad_one_good()
    assert 0.3 < probability_of_one(clone(data, updates=200, data={"top": 0.2})) < 0.8


def test_a_run_by_command_keeps_its_choice_when_it_resumes(tmp_path: Path, capsys) -> None:
    nine_bad_one_good().save(tmp_path / "data.npz")
    (tmp_path / "bc.yaml").write_text(
        f"algorithm: {{name: bc, net_arch: [8], batch_size: 16, learning_rate: 1e-2}}\nenv: {{id: none}}\n"
        f"data: {{path: {tmp_path / 'data.npz'}}}\ntraining: {{total_updates: 40, compile: false, threads: 1}}\n"
    )
    command = [
        "train",
        str(tmp_path / "bc.yaml"),
        "--set",
        "data.top=0.1",
        "--run-dir",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert main([*command, "--stop-at", "20"]) == 0
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert "top: 0.1" in (tmp_path / "run" / "config.yaml").read_text()
    assert probability_of_one(load(tmp_path / "run")) > 0.9


@pytest.mark.parametrize("share", [0, 1.5, -0.1])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"data\.top"):
        BC(dataset=nine_bad_one_good(), data={"top": share}, **QUICK)


def test_a_choice_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.top=0\.1 chooses episodes of a dataset, and there is none"):
        DQN("CartPole-v1", data={"top": 0.1})
    with pytest.raises(ConfigError, match="dataset= and data= both say what to learn from"):
        BC(dataset=nine_bad_one_good(), data={"path": "x.npz"})
