"""The probe: what an environment keeps from episode to episode is found before a run promises to go on from its state."""

from __future__ import annotations

import random
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rl_training.core import Box, Discrete, Spec
from rl_training.envs import EnvConfig, NativeDynamics, make_env
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.make import FACTORIES
from rl_training.envs.probe import needs_probe, probe
from tests.envs.hostile import Scripted


class Curriculum(Scripted):
    """Pays by the number of its episode; no seed brings that back."""

    episodes = 0

    def __init__(self) -> None:
        super().__init__(answer=lambda answer: (answer[0], float(self.episodes), *answer[2:]))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.episodes += 1
        return super().reset(seed=seed)


class Tired(Scripted):
    """Ends earlier the more steps it has taken in its life."""

    taken = 0

    def __init__(self) -> None:
        super().__init__(answer=self.end_early)

    def end_early(self, answer: tuple) -> tuple:
        self.taken += 1
        return *answer[:2], self.taken % 7 == 0, *answer[3:]


class Unseeded(Scripted):
    def __init__(self) -> None:
        super().__init__(observe=lambda count: np.random.uniform(-1, 1, 2).astype(np.float32))


class Masked(Scripted):
    """Refuses what its mask forbids."""

    def __init__(self) -> None:
        space = spaces.Dict(x=spaces.Discrete(3), action_mask=spaces.MultiBinary(5))
        observe = lambda count: {"x": count % 3, "action_mask": np.eye(5, dtype=np.int8)[count % 2 * 3]}  # noqa: E731
        super().__init__(observation_space=space, action_space=spaces.Discrete(5, start=2), observe=observe)

    def step(self, action: Any) -> Any:
        assert action == 2 + self.count % 2 * 3
        return super().step(action)


class Forgetful(NativeDynamics):
    """Counts its steps beside the state that it is given."""

    spec = Spec(Box((1,), (-9.0,), (9.0,)), Discrete(2))
    max_episode_steps, num_random, steps = 9, 1, 0

    def initial(self, uniform: torch.Tensor) -> torch.Tensor:
        return uniform

    def step(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.steps += 1
        return state, torch.full_like(state[:, 0], self.steps), torch.zeros_like(state[:, 0], dtype=torch.bool)


class Quitting(Scripted):
    """Ends the program."""

    def step(self, action: Any) -> Any:
        sys.exit(7)


CASES: list[tuple[str, str | None]] = [
    ("CartPole-v1", None),
    ("LunarLander-v3", None),
    ("FrozenLake-v1", None),
    ("BipedalWalker-v3", "reward|observation"),  # its dynamics depend on how often it was reset
    (f"{__name__}:Scripted", None),
    (f"{__name__}:Masked", None),
    (f"{__name__}:Curriculum", "reward"),
    (f"{__name__}:Tired", "terminated|observation"),
    (f"{__name__}:Unseeded", "observation"),
]


@pytest.mark.parametrize(("env_id", "different"), CASES)
def test_what_differs_is_found(env_id: str, different: str | None) -> None:
    found = probe(EnvConfig(id=env_id), make_env)
    assert found in (different.split("|") if different else [None])


def test_an_environment_that_ends_the_program_is_named() -> None:
    with pytest.raises(EnvFailedError, match=r"Quitting' called sys\.exit\(7\) in its first steps"):
        probe(EnvConfig(id=f"{__name__}:Quitting"), make_env)


def test_so_it_is_in_workers() -> None:
    assert probe(EnvConfig(id="CartPole-v1", vectorization="async"), make_env) is None
    assert probe(EnvConfig(id=f"{__name__}:Curriculum", vectorization="async"), make_env) == "reward"


def test_tensor_code_of_others_is_probed_too() -> None:
    env = make_env(EnvConfig(id=f"{__name__}:Forgetful", backend="native"))
    assert needs_probe(env)
    assert probe(EnvConfig(id=f"{__name__}:Forgetful", backend="native"), make_env) == "reward"
    assert not needs_probe(make_env(EnvConfig(id="CartPole-v1", backend="native")))
    assert not needs_probe(make_env(EnvConfig(id="CartPole-v1", vectorization="vector_entry_point")))


def test_nobody_elses_random_numbers_are_touched() -> None:
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.random(), torch.rand(1).item()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    probe(EnvConfig(id=f"{__name__}:Unseeded"), make_env)
    assert (random.random(), np.random.random(), torch.rand(1).item()) == expected


def test_copies_are_made_and_closed() -> None:
    alive: set[int] = set()

    class Counted(Scripted):
        def __init__(self) -> None:
            super().__init__()
            alive.add(id(self))

        def close(self) -> None:
            alive.discard(id(self))

    FACTORIES["tests:Counted"] = Counted
    assert probe(EnvConfig(id="tests:Counted", n_envs=3), make_env) is None
    assert not alive


@pytest.mark.parametrize("kind", ["sync", "async", "native"])
def test_a_promise_that_was_taken_back_starts_new_episodes(kind: str) -> None:
    native = kind == "native"
    config = EnvConfig(
        id="CartPole-v1",
        n_envs=2,
        backend="native" if native else "gymnasium",
        vectorization="sync" if native else kind,  # pyrefly: ignore
    )
    env = make_env(config)
    first = env.reset(seed=0)
    state = env.get_state()
    env.state_kind = "boundary"
    fresh = env.set_state(state)
    assert isinstance(fresh, torch.Tensor)
    assert isinstance(first, torch.Tensor)
    assert fresh.shape == first.shape
    assert not torch.equal(fresh, first)
    env.close()


def test_gymnasium_classes_of_the_same_name_promise_nothing() -> None:
    class CartPoleVectorEnv(gym.envs.classic_control.cartpole.CartPoleVectorEnv):  # pyrefly: ignore
        """Could keep anything."""

    from rl_training.envs import GymnasiumEnv

    assert GymnasiumEnv(CartPoleVectorEnv(num_envs=2)).state_kind == "boundary"
