"""Rewards of a gymnasium environment with goals for pairs of achieved and desired goals from different steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rl_training.core.goals import ACHIEVED

FUNCTIONS = ("compute_reward", "compute_terminated")
FAILURES = (TypeError, ValueError, KeyError, IndexError, AttributeError)  # of a function that expects something else


class GoalJudge:
    """A callable that gives rewards and terminations of steps for other goals, by an environment's own functions.

    These are `compute_reward` and `compute_terminated`, as in gymnasium-robotics; both get an empty info. Many pairs of
    goals are passed in one call if the first one shows that this gives the same as calls with single pairs.
    """

    def __init__(self, env: gym.Env) -> None:
        self.space = goal_space(env)
        self.dtype = self.space.dtype
        self.functions: dict[str, Callable[..., Any]] = {name: env.get_wrapper_attr(name) for name in FUNCTIONS}
        self.takes_many: dict[str, bool] = {}

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns rewards (float32) and terminations (bool), [n] each, for pairs of goals, [n, goal size] each."""
        pair = achieved.astype(self.dtype), desired.astype(self.dtype)
        reward, terminated = (self.ask(name, *pair) for name in FUNCTIONS)
        return reward.astype(np.float32), terminated.astype(bool)

    def ask(self, name: str, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        if name not in self.takes_many:
            singly, together = self.one_by_one(name, achieved, desired), self.together(name, achieved, desired)
            if len(singly) > 1:  # of one pair nothing can be told
                self.takes_many[name] = together is not None and np.array_equal(together, singly)
            return singly
        if self.takes_many[name]:
            return np.asarray(self.functions[name](achieved, desired, {}))
        return self.one_by_one(name, achieved, desired)

    def one_by_one(self, name: str, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        function = self.functions[name]
        return np.array([np.asarray(function(a, d, {})).item() for a, d in zip(achieved, desired, strict=True)])

    def together(self, name: str, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray | None:
        try:
            answer = np.asarray(self.functions[name](achieved, desired, {}))
        except FAILURES:
            return None
        return answer if answer.shape == (len(achieved),) else None


def goal_space(env: gym.Env) -> gym.Space:
    """Returns the gymnasium space of one achieved goal of `env`, without the dimension of stacked frames."""
    if isinstance(env, gym.wrappers.FrameStackObservation):
        env = env.env
    assert isinstance(env.observation_space, gym.spaces.Dict)
    return env.observation_space[ACHIEVED]


def why_no_judge(env: gym.Env) -> str | None:
    """Returns why `env` cannot compute rewards for other goals, and the remedy, as a sentence; None if it can."""
    for name in FUNCTIONS:
        if not env.has_wrapper_attr(name):
            return f"{env.unwrapped} has no `{name}(achieved_goal, desired_goal, info)`: write one, as in gymnasium-robotics"
    judge = GoalJudge(env)
    goals = np.zeros((2, *(judge.space.shape or ())), judge.dtype)
    for name in FUNCTIONS:
        try:
            judge.one_by_one(name, goals, goals)
        except FAILURES as error:
            return (
                f"`{name}` of {env.unwrapped} cannot judge two goals with an empty info ({type(error).__name__}: {error}): "
                "let it use the goals alone"
            )
    return None
