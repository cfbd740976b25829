"""Environments with something wrong, and what shows that nothing was written."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym

from tests.envs.counting import CountingEnv

SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}


def listing(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def altered(**changes: object) -> type[gym.Env]:
    """A counting environment with some attributes replaced."""

    class Altered(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            vars(self).update({key: value for key, value in changes.items() if key.endswith("_space")})

        def observation(self):
            return changes["observation"] if "observation" in changes else super().observation()

        def step(self, action):
            obs, reward, *rest = super().step(action)
            return changes.get("step_observation", obs), changes.get("reward", reward), *rest

    return Altered


def discrete_with_mask(size: int) -> type[gym.Env]:
    spaces = {"x": gym.spaces.Box(-1, 1, (2,)), "action_mask": gym.spaces.MultiBinary(size)}
    return altered(observation_space=gym.spaces.Dict(spaces))
