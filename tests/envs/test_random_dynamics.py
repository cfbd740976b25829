"""Native dynamics whose steps take random numbers get their own ones, and the same numbers for the same seed."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec
from rl_training.envs import EnvConfig, NativeDynamics, NativeEnv, RandomDynamics, check, make_env


class Dice(RandomDynamics):
    """Remembers the numbers that its first state and its last step were made of."""

    spec = Spec(Box((3,), (0.0,) * 3, (1.0,) * 3), Discrete(2))
    max_episode_steps, num_random, num_step_random = 3, 1, 2

    def initial(self, uniform: Tensor) -> Tensor:
        assert uniform.shape[-1] == 1
        return torch.cat([uniform, uniform.new_zeros(len(uniform), 2)], -1)

    def step(self, state: Tensor, action: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.cat([state[:, :1], uniform], -1), uniform[:, 0], torch.zeros_like(action, dtype=torch.bool)


class Fixed(NativeDynamics):
    """The first numbers of `Dice` alone."""

    spec, max_episode_steps, num_random = Dice.spec, 3, 3

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return state, state[:, 0], torch.zeros_like(action, dtype=torch.bool)


def test_a_step_takes_the_last_numbers_of_its_draw_and_a_new_episode_the_first() -> None:
    generator = torch.Generator().manual_seed(4)
    reset, *draws = (torch.rand(5, 3, generator=generator) for _ in range(5))
    env = NativeEnv(Dice(), 5)
    assert torch.equal(env.reset(4)[:, 0], reset[:, 0])
    start = reset[:, :1]
    for number, draw in enumerate(draws):
        step = env.step(torch.zeros(5, dtype=torch.int64))
        assert torch.equal(step.next_obs, torch.cat([start, draw[:, 1:]], -1))
        assert torch.equal(step.reward, draw[:, 1])
        if number % 3 == 2:
            start = draw[:, :1]
            assert torch.equal(step.obs[:, :1], start)


def test_dynamics_without_chance_draw_as_before() -> None:
    env = NativeEnv(Fixed(), 4)
    generator = torch.Generator().manual_seed(2)
    assert torch.equal(env.reset(2), torch.rand(4, 3, generator=generator))
    assert torch.equal(env.draw(), torch.rand(4, 3, generator=generator))


def test_they_keep_the_contract_and_continue_exactly() -> None:
    check(Dice)
    config = EnvConfig(id=f"{__name__}:Dice", backend="native", n_envs=2)
    env, fresh = make_env(config), make_env(config)
    env.reset(0)
    fresh.set_state(env.get_state())
    action = torch.zeros(2, dtype=torch.int64)
    assert torch.equal(env.step(action).next_obs, fresh.step(action).next_obs)
