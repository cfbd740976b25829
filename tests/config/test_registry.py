"""Algorithms from outside the package run through the same configs, agents and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import A2C, Agent, ConfigError
from rl_training.algorithms import A2CAlgorithm, A2CConfig, DQNAlgorithm, DQNConfig
from rl_training.algorithms.on_policy import OnPolicyConfig
from rl_training.config import register_algorithm
from rl_training.config.registry import ALGORITHMS, check_needs
from rl_training.core import Algorithm, AlgorithmConfig, Needs


@dataclass(frozen=True, kw_only=True)
class GreedyConfig(A2CConfig):
    needs = Needs("rollout", {"n_steps": 16})

    greed: float = 1.0


class GreedyAlgorithm(A2CAlgorithm):
    """A2C under another name."""


@pytest.fixture
def registered() -> Iterator[None]:
    register_algorithm("greedy", GreedyAlgorithm, GreedyConfig)
    yield
    del ALGORITHMS["greedy"]


@pytest.mark.usefixtures("registered")
def test_a_registered_algorithm_has_the_whole_life_cycle(tmp_path: Path) -> None:
    values = {"algorithm": {"name": "greedy", "greed": 2}, "env": {"id": "CartPole-v1"}, "training": {"compile": False}}
    agent = Agent(rl_training.RunConfig.from_mapping(values), run_dir=tmp_path / "run")
    assert isinstance(agent.algorithm, GreedyAlgorithm)
    agent.learn(64, stop_at=32, progress=False)
    result = Agent.resume(tmp_path / "run").learn(progress=False)
    assert (result.algorithm, result.status, result.total_timesteps) == ("greedy", "finished", 64)
    loaded = rl_training.load(tmp_path / "run")
    assert type(loaded) is Agent  # no class of its own
    assert loaded.config.algorithm == GreedyConfig(greed=2.0)
    assert loaded.config.experience.n_steps == 16


@pytest.mark.usefixtures("registered")
def test_load_finds_the_class_of_a_registered_algorithm(tmp_path: Path) -> None:
    class Greedy(Agent):
        name = "greedy"

    agent = Greedy("CartPole-v1", greed=3.0, seed=1)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    assert type(loaded) is Greedy
    pairs = zip(loaded.algorithm.parameters(), agent.algorithm.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    with pytest.raises(ConfigError, match="the config is for 'greedy', not 'a2c': use Greedy"):
        A2C(agent.config)


def test_a_name_is_registered_once(registered: None) -> None:
    register_algorithm("greedy", GreedyAlgorithm, GreedyConfig)  # again, as a reloaded notebook cell does
    with pytest.raises(ValueError, match="'ppo' is taken by PPOAlgorithm: choose another"):
        register_algorithm("ppo", GreedyAlgorithm, GreedyConfig)


def test_what_the_loop_cannot_feed_is_refused() -> None:
    wrong = [
        (
            GreedyAlgorithm,
            AlgorithmConfig,
            r"it has a `prepare` for rollouts, and AlgorithmConfig .* from data: use Needs",
        ),
        (GreedyAlgorithm, DQNConfig, r"it has a `prepare` for rollouts, and DQNConfig declares .* learns from replay"),
        (
            DQNAlgorithm,
            GreedyConfig,
            r"it has no `prepare` for rollouts, and GreedyConfig .*: use Needs\('replay', ...\)",
        ),
    ]
    refuse(wrong)


def refuse(wrong: list[tuple[type[Algorithm], type[AlgorithmConfig], str]]) -> None:
    for algorithm, config, reason in wrong:
        with pytest.raises(ValueError, match=f"{algorithm.__name__} cannot be run: {reason}"):
            register_algorithm("other", algorithm, config)
    assert "other" not in ALGORITHMS


@dataclass(frozen=True, kw_only=True)
class OldConfig(A2CConfig):
    n_steps: int = 16


@dataclass(frozen=True, kw_only=True)
class TypoConfig(A2CConfig):
    needs = Needs("rollout", {"n_stesp": 16})


def test_a_declaration_that_its_experience_does_not_understand_is_refused() -> None:
    refuse(
        [
            (
                GreedyAlgorithm,
                OldConfig,
                r"OldConfig.n_steps is a setting of its experience: declare its default, needs =",
            ),
            (GreedyAlgorithm, TypoConfig, r"TypoConfig.needs: n_stesp is not a setting of RolloutSettings"),
            (GreedyAlgorithm, OnPolicyConfig, r"OnPolicyConfig.needs says nothing of n_steps: give it a default"),
        ]
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_declares_what_it_can_be_given(name: str) -> None:
    check_needs(ALGORITHMS[name].algorithm, ALGORITHMS[name].config)


def test_an_algorithm_that_learns_from_replay_is_registered_and_runs() -> None:
    @dataclass(frozen=True, kw_only=True)
    class CautiousConfig(DQNConfig):
        needs = Needs("replay", {"learning_starts": 16})

    class CautiousAlgorithm(DQNAlgorithm):
        """DQN under another name."""

    register_algorithm("cautious", CautiousAlgorithm, CautiousConfig)
    try:
        values = {"algorithm": {"name": "cautious"}, "env": {"id": "CartPole-v1"}, "training": {"compile": False}}
        agent = Agent(rl_training.RunConfig.from_mapping(values))
        agent.learn(32, progress=False)
        assert isinstance(agent.algorithm, CautiousAlgorithm)
        assert agent.trainer.progress.gradient_steps == 5  # after 16, 20, 24, 28 and 32 steps
    finally:
        del ALGORITHMS["cautious"]


def test_a_class_of_an_unknown_algorithm_is_told() -> None:
    class Unknown(Agent):
        name = "no_such_method"

    with pytest.raises(
        ConfigError, match=r"Unknown.name='no_such_method' is not an algorithm: register it, or install"
    ):
        Unknown("CartPole-v1")
