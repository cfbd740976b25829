"""ale-py's vector environment as a vector environment of Stable-Baselines3, so that its learners can be measured on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cleanrl_atari import game_of, make_envs
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv


class SB3AtariVecEnv(VecEnv):
    """Steps all games in ale-py's threads. A finished game gives its first observation in the next, wasted step.

    That is what the environment does by default (`AutoresetMode.NEXT_STEP`), and what Stable-Baselines3 then learns from.
    """

    def __init__(self, name: str, num_envs: int) -> None:
        self.envs = make_envs(game_of(name), num_envs)
        assert self.envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        super().__init__(num_envs, self.envs.single_observation_space, self.envs.single_action_space)
        self.actions = np.zeros(num_envs, np.int64)

    def reset(self) -> np.ndarray:
        return self.envs.reset(seed=0)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, reward, terminated, truncated, _ = self.envs.step(self.actions)
        done = np.logical_or(terminated, truncated)
        infos = [{"terminal_observation": obs[i]} if done[i] else {} for i in range(self.num_envs)]
        return obs, reward.astype(np.float32), done, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise TypeError("these environments have no attributes to set")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise TypeError("these environments have no methods to call")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs
