"""Environments that samplers step in tests."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv


class Balanced(CartPoleEnv):
    """A pole that says of every episode whether it succeeded, and how far it went."""

    def step(self, action: Any) -> tuple:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"is_success": abs(obs[0]) < 0.1, "far": float(obs[0])}


class Masked(gym.Env):
    """Observations by key, with a mask that forbids what was done last."""

    def __init__(self) -> None:
        keys = {"x": gym.spaces.Box(-1, 1, (3,), np.float32), "action_mask": gym.spaces.MultiBinary(4)}
        self.observation_space, self.action_space = gym.spaces.Dict(keys), gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(3, 9))
        return self.observe(0), {}

    def step(self, action: Any) -> tuple:
        self.left -= 1
        return self.observe(int(action)), float(action == 2), self.left == 0, False, {}

    def observe(self, last: int) -> dict:
        mask = np.ones(4, np.int8)
        mask[last] = 0
        return {"x": self.np_random.uniform(-1, 1, 3).astype(np.float32), "action_mask": mask}


class Faulty(CartPoleEnv):
    """A pole whose process is killed, stopped or told an error, once: by the first to take its step number `at`."""

    def __init__(self, fault: str, marker: str, at: int = 20) -> None:
        super().__init__()
        self.fault, self.marker, self.at, self.taken = fault, Path(marker), at, 0

    def step(self, action: Any) -> tuple:
        self.taken += 1
        in_sampler = multiprocessing.current_process().name.startswith("sampler")
        if in_sampler and self.taken == self.at and self.first():
            if self.fault == "raise":
                raise OSError("the simulator is gone")
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[self.fault])
        return super().step(action)

    def first(self) -> bool:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Forgetful(CartPoleEnv):
    """A pole that starts elsewhere in every object of it, whatever the seed: episodes cannot be re-run."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        _, info = super().reset(seed=seed)
        self.state = self.state + np.random.default_rng().uniform(0, 0.01, 4)
        return np.array(self.state, dtype=np.float32), info


class Announced(CartPoleEnv):
    """A pole that tells in a folder which processes step it in the run."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        if multiprocessing.current_process().name != "probe":
            (Path(folder) / str(os.getpid())).touch()


class Aborting(CartPoleEnv):
    """A pole that ends its process in its third step, or in its third reset."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method, self.calls = method, 0

    def count(self, method: str) -> None:
        self.calls += self.method == method
        if self.calls > 2:
            os.abort()

    def reset(self, **settings: Any) -> tuple:
        self.count("reset")
        return super().reset(**settings)

    def step(self, action: Any) -> tuple:
        self.count("step")
        return super().step(action)


class Refusing(CartPoleEnv):
    """A pole that raises an error of some kind in every step."""

    kind: type[BaseException]
    said: tuple = ()

    def step(self, action: Any) -> tuple:
        raise self.kind(*self.said)


class TaughtError(Exception):
    """An error that cannot be pickled, because its constructor takes other arguments than it keeps."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} ({code})")
