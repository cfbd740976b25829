"""Gymnasium vector environments, in all three autoreset modes, behind the one contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import Tensor

from rl_training.core import Tree, tree_map
from rl_training.envs.conversion import NumpyTree, stack_rows, to_tensors
from rl_training.envs.episode_columns import join_infos
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.host import HostEnv
from rl_training.envs.pictures import check_picture
from rl_training.envs.spaces import convert_spec
from rl_training.envs.vector import EnvStep, StateKind, VectorEnv, seeds_for
from rl_training.envs.watch import TIMEOUT_S, Watch

PLAIN_STATE = (np.ndarray, int, float, bool, np.generic)


class GymnasiumEnv(HostEnv):
    """An adapter from `gymnasium.vector.VectorEnv` to `VectorEnv`; the autoreset mode is read from the metadata.

    `logged` says that every environment is in an `EpisodeLog`, so that a saved state can be re-run; `start` is the
    number of the first environment in the run. A step that takes more than `timeout_s` seconds raises an EnvFailedError
    (None: no limit).
    """

    def __init__(
        self, env: gym.vector.VectorEnv, *, logged: bool = False, timeout_s: float | None = TIMEOUT_S, start: int = 0
    ) -> None:
        self.env, self.start = env, start
        self.watch = Watch(None if logged else timeout_s)  # processes of ours have a clock of their own
        self.num_envs = env.num_envs
        self.spec = convert_spec(env.single_observation_space, env.single_action_space)
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.mode = mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)
        # Gymnasium's own vector classes can restart a subset at once; others only on their next step.
        self.per_env = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self.always_valid = self.per_env or self.mode is not AutoresetMode.NEXT_STEP
        self.logged = logged
        self.pending = np.zeros(self.num_envs, dtype=bool)  # ended, and restarted by the backend's next step
        self.state_kind: StateKind = "replayed" if logged else "exact" if self.plain_state() else "boundary"

    def reset(self, seed: int) -> Tree:
        self.seed = seed
        seeds = seeds_for(seed, self.start + self.num_envs)[self.start :]
        # Only gymnasium's own classes take one seed per environment.
        first = seeds if self.per_env else seeds[0]
        with self.calling():
            obs, _ = self.env.reset(seed=first)  # pyrefly: ignore[bad-argument-type]
        self.pending = np.zeros(self.num_envs, dtype=bool)
        self.obs = self.tensors(obs)
        return self.obs

    def step(self, action: Tensor) -> EnvStep:
        with self.calling():  # a copy: what is learned from must not change if the environment changes its actions
            obs, reward, terminated, truncated, info = self.env.step(action.numpy().copy())
        reward = np.asarray(reward)
        if reward.shape != (self.num_envs,) or reward.dtype.kind not in "iubf":
            raise ValueError(
                f"the environment returned rewards of shape {reward.shape} and type {reward.dtype} for {self.num_envs} "
                "environments: `step` must return one number per environment"
            )
        done = terminated | truncated
        valid = ~self.pending
        next_obs = self.obs = self.tensors(obs)
        self.pending = done  # where nothing below restarts it, the backend's next step does
        columns = self.columns.from_vector(self.last_info(info), done) if done.any() else {}
        if done.any() and self.always_valid:
            self.pending = np.zeros_like(done)
            if self.mode is AutoresetMode.SAME_STEP:
                rows, final = np.flatnonzero(done), self.final_rows(info)
                last = stack_rows([final[row] for row in rows], self.spec.obs)
                next_obs = tree_map(lambda x, new: x.index_copy(0, torch.from_numpy(rows), new), self.obs, last)
            else:
                with self.calling():
                    first_obs, _ = self.env.reset(options={"reset_mask": done})
                self.obs = self.tensors(first_obs)
        return EnvStep(
            torch.from_numpy(np.array(reward, dtype=np.float32)),
            torch.from_numpy(np.array(terminated, dtype=bool)),
            torch.from_numpy(np.array(truncated, dtype=bool)),
            next_obs,
            self.obs,
            torch.from_numpy(valid),
            columns,
        )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Raises an EnvFailedError if, inside the block, the vector environment hangs or a process of it dies."""
        try:
            with self.watch:
                yield
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            if self.logged:  # an environment raised it
                raise
            raise EnvFailedError(
                f"a process of {type(self.env).__name__} ended while it was stepped or reset: look for what ends it there, "
                "such as a crash of a simulator; pass an id or a function and vectorization='async' to learn which it was"
            ) from error

    def tensors(self, obs: NumpyTree) -> Tree:
        return to_tensors(obs, self.spec.obs, self.num_envs)

    def final_rows(self, info: dict[str, Any]) -> np.ndarray:
        if "final_obs" not in info:
            raise ValueError(
                "the vector environment's metadata says that it restarts in the same step, but an episode ended without "
                "info['final_obs']: return the last observations there, or correct metadata['autoreset_mode']"
            )
        return info["final_obs"]

    def last_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Returns the infos at the ends of episodes: `info["final_info"]` in same-step autoreset mode, else `info`.

        A list of infos per environment becomes a dict with one array per key.
        """
        if self.mode is not AutoresetMode.SAME_STEP or not info:
            return info or {}
        final = info.get("final_info", {})
        return final if isinstance(final, dict) else join_infos(final)

    def plain_state(self) -> dict[str, Any]:
        """Returns the state of gymnasium's own vectorised CartPole as a dict of attributes.

        Returns {} for any other environment.
        """
        env = self.env.unwrapped
        if type(env) is not CartPoleVectorEnv or env is not self.env:
            return {}
        return {name: value for name, value in vars(env).items() if isinstance(value, PLAIN_STATE)}

    def call(self, method: str, *arguments: Any) -> list[Any]:
        assert isinstance(self.env, SyncVectorEnv | AsyncVectorEnv)
        return list(self.env.call(method, *arguments))

    @property
    def why_no_judge(self) -> str | None:
        if self.logged:
            return super().why_no_judge
        return "a vector environment that was handed over judges no steps by other goals: pass an id or a function"

    def get_state(self) -> dict:
        if self.logged:
            return super().get_state()
        state = {"seed": self.seed}
        if self.state_kind == "exact":  # copies: the environment changes its arrays in place
            plain = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in self.plain_state().items()}
            rng = self.env.unwrapped.np_random.bit_generator.state
            state |= {"plain": plain, "rng": rng, "pending": torch.tensor(self.pending), "obs": self.obs}
        return state

    def restore(self, state: dict) -> bool:
        self.reset(state["seed"])  # creates generators and buffers
        if self.logged:
            return super().restore(state)
        for name, value in state["plain"].items():
            setattr(self.env.unwrapped, name, value.numpy().copy() if isinstance(value, Tensor) else value)
        self.env.unwrapped.np_random.bit_generator.state = state["rng"]
        self.pending = state["pending"].numpy().copy()
        return True

    @property
    def render_fps(self) -> float:  # pyrefly: ignore[bad-override]  (an attribute of the base, never set)
        return self.env.metadata.get("render_fps") or VectorEnv.render_fps

    def render(self) -> np.ndarray | None:
        if self.env.render_mode != "rgb_array":
            return None
        with self.calling():
            pictures = self.env.render()
        return check_picture(pictures[0]) if pictures is not None else None

    def close(self) -> None:
        self.columns.say_missing()
        self.env.close()
