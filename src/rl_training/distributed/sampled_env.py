"""The learner's handle to environments that samplers step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium as gym
import torch
from torch import Tensor

from rl_training.config.sections import SamplingConfig
from rl_training.core import Column, Policy, Tree, tree_map
from rl_training.distributed.engine import Engine
from rl_training.distributed.messages import Assignment, Carry
from rl_training.distributed.open_episodes import OpenEpisodes
from rl_training.distributed.sampler_pool import SamplerPool
from rl_training.envs import EnvConfig, EnvStep, LocalEnv
from rl_training.envs.host import HostEnv
from rl_training.envs.joint_env import flat_actions
from rl_training.envs.make import find_factory
from rl_training.envs.vector import StateKind, following_seed, seeds_for

Launcher = Callable[[Sequence[Assignment]], Engine]
T = TypeVar("T")


class SampledEnv(HostEnv):
    """The learner's handle to environments that samplers (other processes) step; it cannot step them itself.

    A local environment (`here`) provides their spaces and computes the rewards of relabelled goals. The handle keeps
    the log of open episodes, so a checkpoint is the same tree as in one process, and a lost sampler can be replaced.
    """

    state_kind: StateKind = "replayed"
    stepped_as = "samplers"

    def __init__(self, config: EnvConfig, sampling: SamplingConfig, here: LocalEnv, fragment: int) -> None:
        self.config, self.sampling, self.here = config, sampling, here
        self.fragment = fragment  # steps of every environment from one iteration to the next
        self.num_envs, self.spec = config.n_envs, here.spec
        each = self.num_envs // sampling.workers
        self.rows = [range(start, start + each) for start in range(0, self.num_envs, each)]
        self.episodes = OpenEpisodes(self.num_envs)
        self.hired: SamplerPool | None = None

    def hire(self, policy: Policy, columns: Sequence[Column], launcher: Launcher) -> None:
        """Starts the samplers, which act with copies of `policy`, and waits until they are ready; closes earlier ones.

        `columns` are recorded with the steps; `launcher` makes the engine from the list of the samplers' arguments.
        """
        registered = gym.registry.get(self.config.id)
        factory = find_factory(self.config.id)
        assignments = [
            Assignment(
                index=index,
                rows=rows,
                num_envs=self.num_envs,
                env=self.config,
                factory=factory,
                registered=registered,
                policy=policy,
                columns=tuple(columns),
            )
            for index, rows in enumerate(self.rows)
        ]
        self.close_pool()
        sampling = self.sampling
        self.hired = SamplerPool(
            launcher(assignments), self.rows, restarts=sampling.restarts, window_s=sampling.window_s
        )

    @property
    def pool(self) -> SamplerPool:
        assert self.hired is not None, "no samplers were started"
        return self.hired

    def parts(self, tree: T) -> list[T]:
        """Splits a tree of tensors with a row per environment into a list of trees: each sampler's rows."""
        return [tree_map(lambda x, rows=rows: x[rows.start : rows.stop], tree) for rows in self.rows]

    def reset(self, seed: int) -> Tree:
        self.seed = seed
        self.obs = joined(self.pool.ask_all("reset", [(seed,)] * len(self.rows)))
        self.episodes.begin({env: {"seed": start} for env, start in enumerate(seeds_for(seed, self.num_envs))})
        return self.obs

    def set_carry(self, carry: Carry) -> None:
        """Sends each sampler the observations, policy memory and episode starts to continue from, and waits.

        `carry` has a row for every environment of the run.
        """
        self.pool.ask_all("set_carry", [(part,) for part in self.parts(carry)])

    def step(self, action: Tensor) -> EnvStep:
        raise TypeError("these environments are stepped by samplers, many steps at a time: see SampledCollector")

    def get_state(self) -> dict:
        return {"episodes": self.episodes.rows(), "obs": self.obs, "seed": self.seed}

    def restore(self, state: dict) -> bool:
        parts = zip(self.rows, self.parts(state["obs"]), strict=True)
        states = [state | {"episodes": state["episodes"][rows.start : rows.stop], "obs": part} for rows, part in parts]
        if not all(self.pool.ask_all("restore", [(one,) for one in states])):
            return False
        self.episodes.load(state["episodes"])
        return True

    def revive(self, index: int, carry: Carry) -> Carry | None:
        """Repeats the open episodes of lost sampler `index` in its replacement, and returns None.

        If that is not possible, it starts new episodes there and returns their observations, memory and episode starts.
        `carry` has these of all environments, before the loss.
        """
        part, rows = self.parts(carry)[index], self.rows[index]
        state = {"episodes": self.episodes.rows()[rows.start : rows.stop], "obs": part.obs, "seed": self.seed}
        if self.state_kind != "boundary" and self.pool.ask(index, "restore", state):
            self.pool.ask(index, "set_carry", part)
            return None
        self.state_kind = "boundary"
        self.seed = following_seed(self.seed)
        seeds = seeds_for(self.seed, self.num_envs)
        fresh = Carry(self.pool.ask(index, "reset", self.seed), part.memory, torch.ones_like(part.first))
        self.pool.ask(index, "set_carry", fresh)
        self.episodes.begin({env: {"seed": seeds[env]} for env in rows})
        return fresh

    def call(self, method: str, *arguments: Any) -> list[Any]:
        return self.here.call(method, *arguments)

    def took(self, actions: Tensor, ended: Tensor, starts: dict[int, dict], obs: Tree) -> None:
        """Logs the actions that samplers took, and stores `obs`, the observations of all environments after them.

        `actions`, [time, env, ...], are in the environments' units; `ended`, [time, env], marks the ends of episodes;
        `starts` maps the number of an environment to how its newest episode began.
        """
        self.episodes.add(flat_actions(actions, 2).numpy(), ended.numpy(), starts)
        self.obs = obs

    def close_pool(self) -> None:
        if self.hired is not None:
            self.hired.close()
            self.hired = None

    def close(self) -> None:
        self.close_pool()
        self.here.close()


def joined(parts: Sequence[T], dim: int = 0) -> T:
    """Concatenates trees of tensors, one per sampler, along dimension `dim`; returns one tree that shares no memory."""
    return tree_map(lambda *rows: torch.cat(rows, dim), *parts)
