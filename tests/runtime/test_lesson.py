"""Steps of environments that have other rewards and ends to learn from than the game's own."""

from __future__ import annotations

import torch

from rl_training.core import UniformPolicy
from rl_training.envs import EnvStep, Lesson
from rl_training.runtime.collector import EnvCollector
from tests.envs.counting import CountingVector


class TwoLives(CountingVector):
    """Games of `length` steps, in which every second step loses a life; what is learned from is the sign of rewards."""

    def step(self, action: torch.Tensor) -> EnvStep:
        step = super().step(action)
        return step._replace(lesson=Lesson(step.reward.sign(), step.next_obs[:, 0] % 2 == 0))


def test_episodes_are_of_the_game_and_steps_of_the_lesson() -> None:
    env = TwoLives(2, length=5)
    collector = EnvCollector(env, UniformPolicy(env.spec), seed=1)
    steps = collector.collect(UniformPolicy(env.spec), 7)
    assert steps.reward[:, 0].tolist() == [1.0] * 7
    assert steps.terminated[:, 1].tolist() == [False, True, False, True, True, False, True]
    assert steps.columns["life_lost"][:, 1].tolist() == [False, True, False, True, False, False, True]
    assert [(e.ret, e.length) for e in collector.pop_episodes()] == [(15.0, 5), (15.0, 5)]
    assert collector.returns.tolist() == [3.0, 3.0]
    assert collector.lengths.tolist() == [2, 2]


def test_a_memory_begins_anew_when_a_life_is_lost() -> None:
    env = TwoLives(1, length=5)
    collector = EnvCollector(env, UniformPolicy(env.spec), seed=1)
    collector.collect(UniformPolicy(env.spec), 2)
    assert collector.first.tolist() == [True]
