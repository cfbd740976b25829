"""Encoders of pictures that a config names: which environments take them, and that a saved model needs no trust."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import PPO
from rl_training.core.arguments import ConfigError
from rl_training.models import ImpalaCNN, SmallCNN


def test_a_network_for_pictures_needs_pictures() -> None:
    with pytest.raises(ValueError, match=r"algorithm.encoder='impala' is for pictures.*leave it out"):
        PPO("CartPole-v1", encoder="impala")


def test_a_named_encoder_is_loaded_from_a_file_without_trust(tmp_path: Path) -> None:
    settings = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "seed": 1, "compile": False}
    agent = PPO("MinAtar/Breakout-v1", encoder="impala", **settings)
    assert isinstance(agent.algorithm.policy.trunk, ImpalaCNN)
    agent.learn(8, progress=False)
    agent.save(tmp_path / "model")
    same = rl_training.load(tmp_path / "model")
    assert isinstance(same.algorithm.policy.trunk, ImpalaCNN)
    for one, other in zip(agent.algorithm.parameters(), same.algorithm.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ConfigError, match="encoder"):
        rl_training.load(tmp_path / "model", encoder=SmallCNN)
