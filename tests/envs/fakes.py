"""Small deterministic environments, and the ways to run them that must all look the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from rl_training.core import Act, Box, Discrete, Policy, Spec, Tree
from rl_training.core.policy import Memory
from rl_training.envs import Abilities, EnvConfig, GymnasiumEnv, VectorEnv, make_env, register_backend
from rl_training.envs.make import FACTORIES

MODES = tuple(AutoresetMode)
VECTORS = tuple(f"{kind}-{mode.value}" for kind in ("sync", "async") for mode in MODES)
BACKENDS = ("local", "async", *VECTORS, "strict", "registered")
BACKENDS_IN_PROCESS = tuple(name for name in BACKENDS if not name.startswith("async"))


class NextStepOnly(gym.vector.VectorEnv):
    """Restarts an ended environment on the next step and never otherwise, like gymnasium's CartPoleVectorEnv."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, factory: Callable[[], gym.Env], num_envs: int) -> None:
        self.envs = [factory() for _ in range(num_envs)]
        self.num_envs = num_envs
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.ended = [False] * num_envs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is None or isinstance(seed, int)
        super().reset(seed=seed)
        self.ended = [False] * self.num_envs
        rows = [env.reset(seed=None if seed is None else seed + index)[0] for index, env in enumerate(self.envs)]
        return np.stack(rows), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        pairs = zip(self.envs, actions, self.ended, strict=True)
        results = [(env.reset()[0], 0.0, False, False, {}) if ended else env.step(a) for env, a, ended in pairs]
        rows, rewards, terminated, truncated, infos = zip(*results, strict=True)
        self.ended = [a or b for a, b in zip(terminated, truncated, strict=True)]
        joined: dict[str, Any] = {}
        for index, info in enumerate(infos):
            joined = self._add_info(joined, info, index)
        return np.stack(rows), np.array(rewards), np.array(terminated), np.array(truncated), joined


class ManualReset(NextStepOnly):
    """Restarts nothing by itself; takes one seed and gymnasium's `reset_mask`."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if options is None or "reset_mask" not in options:
            obs, info = super().reset(seed=seed)
            self.obs = obs
            return obs, info
        for index in np.flatnonzero(options["reset_mask"]):
            self.obs[index], _ = self.envs[index].reset()
            self.ended[index] = False
        return self.obs, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert not any(self.ended)
        self.obs, *rest = super().step(actions)
        return (self.obs, *rest)


def make_rows(config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> GymnasiumEnv:
    """The backend `rows`, as a package from outside would add one."""
    make = partial(FACTORIES[config.id], **config.kwargs)
    return GymnasiumEnv(SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP), start=start)


register_backend("rows", make_rows, owns=("rows:",), can=Abilities(renders=True))


def build(factory: Callable[[], gym.Env], backend: str, num_envs: int, info_keys: tuple[str, ...] = ()) -> VectorEnv:
    """Runs copies of an environment through one of the backends."""
    if backend in ("local", "async", "registered"):
        name = f"{'rows' if backend == 'registered' else 'tests'}:{id(factory)}"
        FACTORIES[name] = factory
        kind = "async" if backend == "async" else "sync"
        try:
            return make_env(EnvConfig(id=name, n_envs=num_envs, vectorization=kind, info_keys=info_keys))
        finally:
            del FACTORIES[name]
    env = adapt(factory, backend, num_envs)
    env.ask_columns(info_keys)
    return env


def adapt(factory: Callable[[], gym.Env], backend: str, num_envs: int) -> GymnasiumEnv:
    if backend == "strict":
        return GymnasiumEnv(NextStepOnly(factory, num_envs))
    if backend == "manual":
        return GymnasiumEnv(ManualReset(factory, num_envs))
    kind, _, mode = backend.partition("-")
    vector = SyncVectorEnv if kind == "sync" else partial(AsyncVectorEnv, context="fork")
    return GymnasiumEnv(vector([factory] * num_envs, autoreset_mode=AutoresetMode(mode)))


class FixedPolicy(Policy):
    """Takes the same action everywhere, and notes what it was told about memory."""

    def __init__(self, action: Tensor | int = 0) -> None:
        super().__init__(Spec(Box((2,), (-1.0,) * 2, (1e6,) * 2), Discrete(2)))  # of CountingEnv
        self.action = torch.as_tensor(action)
        self.firsts: list[Tensor] = []

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        assert first is not None
        self.firsts.append(first.clone())
        num = first.shape[0]
        return Act(self.action.expand(num, *self.action.shape).clone(), torch.zeros(num), memory)
