"""Gymnasium environments stepped one after the other in this process: the fastest way for cheap ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Discrete, Tree
from rl_training.envs.conversion import stack_rows
from rl_training.envs.episode_columns import ColumnReader, Columns
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.spaces import convert_spec
from rl_training.envs.vector import (
    EnvStep,
    VectorEnv,
    episodes_from_state,
    episodes_to_state,
    following_seed,
    seeds_for,
    trees_equal,
)

STEP_LENGTH = 5


class LocalEnv(VectorEnv):
    """Steps a list of gymnasium environments and restarts each in the step that ends its episode."""

    state_kind = "replayed"

    def __init__(self, builders: list[Callable[[int], EpisodeLog]]) -> None:
        self.envs = [build(index) for index, build in enumerate(builders)]
        self.num_envs = len(self.envs)
        self.spec = convert_spec(self.envs[0].observation_space, self.envs[0].action_space)
        self.all_valid = torch.ones(self.num_envs, dtype=torch.bool)
        self.obs: Tree = torch.empty(0)
        self.seed = 0
        self.columns = ColumnReader()

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        self.columns = ColumnReader(keys)

    def reset(self, seed: int) -> Tree:
        self.seed = seed
        rows = [env.reset(seed=s)[0] for env, s in zip(self.envs, seeds_for(seed, self.num_envs), strict=True)]
        self.obs = stack_rows(rows, self.spec.obs)
        return self.obs

    def step(self, action: Tensor) -> EnvStep:
        # Python numbers pass an environment's own checks of its action faster than numpy's do.
        actions: Any = action.tolist() if isinstance(self.spec.action, Discrete) else action.numpy()
        results = [env.step(a) for env, a in zip(self.envs, actions, strict=True)]
        if len(results[0]) != STEP_LENGTH:
            raise ValueError(
                f"the environment's `step` returned {len(results[0])} values: gymnasium wants {STEP_LENGTH} (observation, "
                "reward, terminated, truncated, info); four are the old gym API"
            )
        rows, rewards, terminated, truncated, infos = zip(*results, strict=True)
        next_obs = self.obs = stack_rows(rows, self.spec.obs)
        done = [a or b for a, b in zip(terminated, truncated, strict=True)]
        columns: Columns = {}
        if any(done):
            columns = self.columns.from_infos(infos, done)
            rows = [env.reset()[0] if d else row for env, row, d in zip(self.envs, rows, done, strict=True)]
            self.obs = stack_rows(rows, self.spec.obs)
        return EnvStep(
            rewards_tensor(rewards),
            torch.tensor(terminated, dtype=torch.bool),
            torch.tensor(truncated, dtype=torch.bool),
            next_obs,
            self.obs,
            self.all_valid,
            columns,
        )

    def get_state(self) -> dict:
        return episodes_to_state([env.save_episode() for env in self.envs], self.obs, self.seed)

    def set_state(self, state: dict) -> Tree | None:
        episodes = episodes_from_state(state)
        rows = [env.restore_episode(episodes) for env in self.envs]
        if any(row is None for row in rows) or not trees_equal(stack_rows(rows, self.spec.obs), state["obs"]):
            self.state_kind = "boundary"
            return self.reset(following_seed(state["seed"]))
        self.obs, self.seed = state["obs"], state["seed"]
        return None

    def close(self) -> None:
        self.columns.say_missing()
        for env in self.envs:
            env.close()


def rewards_tensor(rewards: tuple[Any, ...]) -> Tensor:
    try:
        return torch.from_numpy(np.array(rewards, dtype=np.float32).reshape(len(rewards)))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the environment returned the reward {rewards[0]!r}: `step` must return one number as its reward"
        ) from error
