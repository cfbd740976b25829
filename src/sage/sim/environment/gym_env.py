"""Gymnasium environment of software tasks, for any library: `gymnasium.make("sage/SoftwareTask-v0", split="train")`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from sage.sim.environment import packed, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.models import Models, open_models


class SoftwareTaskEnv(gymnasium.Env[dict[str, np.ndarray], int]):
    """A gymnasium environment whose episodes are tasks drawn from a split of compiled tasks; `info` has the task's
    id."""

    def __init__(
        self,
        tables: str | Path | None = None,
        split: str = "train",
        *,
        shaping: bool = False,
        models: Models | str | Path | None = None,
    ) -> None:
        """Opens the tables (None: those that come with the package); `models` may be a file of `sage sim fit-models`,
        and None means the invented models."""
        tasks = packed.load_packed(Path(tables or packed.SHIPPED)).of_split(split)
        asked = open_models(models) if models is None or isinstance(models, str | Path) else models
        self.dynamics = SoftwareTaskDynamics(tasks, asked, shaping=shaping)
        first = self.dynamics.observe(self.dynamics.initial(torch.zeros(1, self.dynamics.num_random)))
        parts: dict[str, spaces.Space] = {
            name: spaces.Box(*rules.BOUNDS, tuple(value.shape[1:]), np.float32)
            for name, value in first.items()
            if name != "action_mask"
        }
        parts["action_mask"] = spaces.MultiBinary(rules.NUM_ACTIONS)
        self.observation_space = spaces.Dict(parts)  # pyrefly: ignore (of these arrays)
        self.action_space = spaces.Discrete(rules.NUM_ACTIONS)  # pyrefly: ignore (numpy's integers are integers)
        self.state = torch.zeros(0)
        self.elapsed, self.ended = 0, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        uniform = self.np_random.random((1, self.dynamics.num_random), dtype=np.float32)
        self.state = self.dynamics.initial(torch.from_numpy(uniform))
        self.elapsed, self.ended = 0, False
        return self.observation(), self.facts()

    def step(self, action: int) -> tuple[dict[str, np.ndarray], SupportsFloat, bool, bool, dict[str, Any]]:
        if self.ended:
            raise gymnasium.error.ResetNeeded("call reset() first: there is no open task")
        self.state, reward, finished = self.dynamics.step(self.state, torch.tensor([int(action)]))
        self.elapsed += 1
        terminated = bool(finished)
        truncated = not terminated and self.elapsed >= rules.HORIZON
        self.ended = terminated or truncated
        return self.observation(), float(reward), terminated, truncated, self.facts()

    def observation(self) -> dict[str, np.ndarray]:
        return {name: value[0].numpy() for name, value in self.dynamics.observe(self.state).items()}

    def facts(self) -> dict[str, Any]:
        found = self.dynamics.info(self.state)
        task = self.dynamics.tasks.ids[int(self.state[0, 0])]
        return {"task": task, "spent": float(found["spent"]), "is_success": bool(found["is_success"])}

    def action_masks(self) -> np.ndarray:
        """Returns the mask of allowed actions, by the name that other libraries call."""
        return self.observation()["action_mask"].astype(bool)
