"""Gymnasium environments stepped one after the other in this process: the fastest way for cheap ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Discrete, Tree
from rl_training.envs.conversion import check_numeric, stack_rows
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.host import HostEnv
from rl_training.envs.pictures import check_picture
from rl_training.envs.result_checks import check_step, flags_tensor, rewards_tensor
from rl_training.envs.spaces import check_same_spaces, convert_spec
from rl_training.envs.vector import EnvStep, StateKind, VectorEnv, seeds_for
from rl_training.envs.watch import Watch


class LocalEnv(HostEnv):
    """A batch of gymnasium environments stepped in turn in this process.

    Each is reset in the step that ends its episode. They may be part of the `total` environments of a run, numbered
    from `start`, and have the same seeds as if all were stepped together (None: they are all). A call that takes more
    than `timeout_s` seconds raises an EnvFailedError (None: no limit).
    """

    state_kind: StateKind = "replayed"
    infos: tuple[dict[str, Any], ...] = ()  # of the last step
    end: np.ndarray | None = None  # the picture of the last ended episode of environment 0, while it is filmed

    def __init__(
        self,
        builders: list[Callable[[int], EpisodeLog]],
        *,
        timeout_s: float | None = None,
        start: int = 0,
        total: int | None = None,
    ) -> None:
        self.watch = Watch(timeout_s)
        self.envs = [self.watched(build, index) for index, build in enumerate(builders, start)]
        self.num_envs, self.start, self.total = len(self.envs), start, total or len(self.envs)
        if len({id(env.unwrapped) for env in self.envs}) < self.num_envs:
            raise ValueError(
                "the function that makes environments returned the same object twice, and each must be stepped alone: make a "
                "new environment in every call"
            )
        self.spec = convert_spec(self.envs[0].observation_space, self.envs[0].action_space)
        check_same_spaces([(env.observation_space, env.action_space) for env in self.envs])
        self.all_valid = torch.ones(self.num_envs, dtype=torch.bool)

    def watched(self, call: Callable, *arguments: Any, **keywords: Any) -> Any:
        with self.watch:
            return call(*arguments, **keywords)

    def call(self, method: str, *arguments: Any) -> list[Any]:
        return [self.watched(getattr(env, method), *arguments) for env in self.envs]

    def call_first(self, method: str, *arguments: Any) -> Any:
        return self.watched(getattr(self.envs[0], method), *arguments)

    def reset(self, seed: int) -> Tree:
        self.seed = seed
        seeds = seeds_for(seed, self.total)[self.start : self.start + self.num_envs]
        rows = [self.watched(env.reset, seed=s)[0] for env, s in zip(self.envs, seeds, strict=True)]
        check_numeric(rows, self.spec.obs)
        self.obs = stack_rows(rows, self.spec.obs)
        return self.obs

    def step(self, action: Tensor) -> EnvStep:
        with self.watch:
            return self.step_all(action)

    def step_all(self, action: Tensor) -> EnvStep:
        # Python numbers pass an environment's own checks of its action faster than numpy's do.
        plain = isinstance(self.spec.action, Discrete) and action.dtype == torch.int64
        actions: Any = action.tolist() if plain else action.numpy()
        results = [env.step(a) for env, a in zip(self.envs, actions, strict=True)]
        try:
            rows, rewards, terminated, truncated, infos = zip(*results, strict=True)
            self.infos = infos
            reward, ends, cuts = rewards_tensor(rewards), flags_tensor(terminated), flags_tensor(truncated)
        except (TypeError, ValueError):
            for index, result in enumerate(results):
                check_step(index, result)
            raise
        next_obs = self.obs = stack_rows(rows, self.spec.obs)
        done = [a or b for a, b in zip(terminated, truncated, strict=True)]
        columns: EpisodeColumns = {}
        if any(done):
            columns = self.columns.from_infos(infos, done)
            if done[0] and self.filmed:
                self.end = self.picture()
            rows = [env.reset()[0] if d else row for env, row, d in zip(self.envs, rows, done, strict=True)]
            self.obs = stack_rows(rows, self.spec.obs)
        return EnvStep(reward, ends, cuts, next_obs, self.obs, self.all_valid, columns)

    @property
    def render_fps(self) -> float:  # pyrefly: ignore[bad-override]  (an attribute of the base, never set)
        return self.envs[0].metadata.get("render_fps") or VectorEnv.render_fps

    def render(self) -> np.ndarray | None:
        with self.watch:
            return self.picture()

    def picture(self) -> np.ndarray | None:
        return check_picture(self.envs[0].render()) if self.envs[0].render_mode == "rgb_array" else None

    def render_end(self) -> np.ndarray | None:
        return self.end

    def close(self) -> None:
        self.columns.say_missing()
        self.call("close")
