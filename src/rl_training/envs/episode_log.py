"""A wrapper that makes deterministic gymnasium environments resumable by recording random state and actions."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from rl_training.envs.goal_judge import GoalJudge, why_no_judge
from rl_training.envs.result_checks import check_reset
from rl_training.envs.vector import following_seed

# Packages whose environments draw random numbers that `np_random` does not hold: every episode gets a seed.
OWN_DRAWS = ("ale_py.",)


class EpisodeLog(gym.Wrapper):
    """A wrapper that records how the current episode started and its actions, so that it can be re-run later.

    A re-run brings back everything below it (time limits, frame stacks, a simulator that cannot be serialised).
    """

    def __init__(self, env: gym.Env, index: int) -> None:
        super().__init__(env)
        self.index = index
        self.seed: int | None = None  # the last one it was given
        self.start: dict[str, Any] = {}
        self.actions: list[Any] = []
        self.own_draws = type(self.unwrapped).__module__.startswith(OWN_DRAWS)
        self.judge: GoalJudge | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is None and self.own_draws and "seed" in self.start:
            seed = following_seed(self.start["seed"])
        if seed is not None:
            self.seed = int(seed)
            self.start = {"seed": self.seed}
        else:
            self.start = {"rng": self.unwrapped.np_random.bit_generator.state}
        self.actions = []
        answer = self.env.reset(seed=seed, options=options)
        check_reset(self.index, answer)
        return answer

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        # An environment that changes its action in place must change neither the log nor what is learned from.
        return self.env.step(action if type(action) is int else action.copy())

    def save_episode(self) -> dict[str, Any]:
        return {"start": self.start, "actions": np.array(self.actions)}

    def restore_episode(self, episodes: list[dict[str, Any]]) -> Any:
        """Re-runs `episodes[self.index]`, a result of `save_episode`, and returns its last observation.

        Returns None if the episode ends during the re-run: the environment is not a function of its random state and
        actions.
        """
        episode = episodes[self.index]
        if "seed" in episode["start"]:
            obs, _ = self.reset(seed=episode["start"]["seed"])
        else:
            self.env.reset(seed=0)  # creates the generator
            self.unwrapped.np_random.bit_generator.state = episode["start"]["rng"]
            obs, _ = self.reset()
        for action in episode["actions"]:
            obs, _, terminated, truncated, _ = self.step(action)
            if terminated or truncated:
                return None
        return obs

    def why_no_judge(self) -> str | None:
        return why_no_judge(self.env)

    def judge_goals(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rewards and terminations [n] of steps that achieved `achieved` if `desired` had been desired.

        Both are arrays of goals, [n, goal size].
        """
        self.judge = self.judge or GoalJudge(self.env)
        return self.judge(achieved, desired)
