"""Native dynamics of one's own, known by a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import rl_training
from rl_training.core import Box, Discrete, Spec
from rl_training.envs import NATIVE, EnvConfig, NativeDynamics, check, make_env, register_native


class Drift(NativeDynamics):
    """A number that walks off; the action pushes it back."""

    spec = Spec(Box((1,), (-10.0,), (10.0,)), Discrete(2))
    max_episode_steps = 12
    num_random = 1

    def __init__(self, pull: float = 0.1) -> None:
        self.pull = pull

    def initial(self, uniform: torch.Tensor) -> torch.Tensor:
        return uniform

    def step(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        state = state + self.pull - 0.2 * action.unsqueeze(-1)
        position = state.squeeze(-1)
        return state, -position.abs(), position.abs() > 3


@pytest.fixture
def registry() -> Iterator[dict]:
    """What is registered in a test is forgotten after it."""
    before = dict(NATIVE)
    yield NATIVE
    NATIVE.clear()
    NATIVE.update(before)


def test_registered_dynamics_keep_the_contract_and_are_trained_evaluated_and_loaded_by_name(registry, tmp_path) -> None:
    register_native("Drift-v0", Drift)
    register_native("Drift-v0", Drift)  # the same again, as when a module is imported under two names
    check(EnvConfig(id="Drift-v0", backend="native", n_envs=3, kwargs={"pull": 0.3}))
    config = {
        "algorithm": {"name": "ppo", "n_steps": 8, "batch_size": 16},
        "env": {"id": "Drift-v0", "backend": "native", "n_envs": 4, "kwargs": {"pull": 0.3}},
        "training": {"total_timesteps": 64, "compile": False, "threads": 1},
    }
    agent = rl_training.PPO(rl_training.RunConfig.from_mapping(config))
    agent.learn(progress=False)
    assert agent.env.dynamics.pull == 0.3
    agent.save(tmp_path / "model")
    assert rl_training.load(tmp_path / "model").evaluate(3, seed=1).mean == agent.evaluate(3, seed=1).mean


class Doubtful(Drift):
    """Says with a number whether the episode ended."""

    def step(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        state, reward, terminated = super().step(state, action)
        return state, reward, terminated.float()


def test_an_end_that_is_a_number_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"terminated is torch\.float32: return a tensor of torch\.bool"):
        check(Doubtful)
    agent = rl_training.PPO(Doubtful, backend="native", n_envs=4, n_steps=8, batch_size=16)
    with pytest.raises(ValueError, match=r"return a tensor of torch\.bool"):
        agent.learn(64, progress=False)


def test_the_same_dynamics_by_path_need_no_registration() -> None:
    env = make_env(EnvConfig(id=f"{__name__}:Drift", backend="native", n_envs=2))
    assert env.reset(0).shape == (2, 1)


@pytest.mark.parametrize(
    ("name", "dynamics", "reason"),
    [
        ("CartPole-v1", Drift, "'CartPole-v1' is the name of CartPole already: choose another name"),
        ("module:Drift", Drift, "'module:Drift' is not a name for an environment: use one without a colon"),
        ("", Drift, "'' is not a name"),
        ("Drift-v0", Drift(), "pass the class or a function that returns dynamics, e.g. Drift, not an object"),
        ("Drift-v0", dict, "dict is not a NativeDynamics: derive it from that class"),
    ],
)
def test_what_cannot_be_registered_is_refused(registry, name: str, dynamics, reason: str) -> None:
    before = dict(registry)
    with pytest.raises(ValueError, match=re.escape(reason)):
        register_native(name, dynamics)
    assert registry == before


def test_a_registered_name_without_the_backend_is_refused_with_the_fix(registry) -> None:
    register_native("Drift-v0", Drift)
    with pytest.raises(ValueError, match="it exists as tensor code, use backend='native'"):
        make_env(EnvConfig(id="Drift-v0"))
