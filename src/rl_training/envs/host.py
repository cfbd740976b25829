"""Base of environments on the host: the columns of their episodes, and continuing from a saved state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Tree
from rl_training.envs.conversion import stack_rows
from rl_training.envs.episode_columns import ColumnReader
from rl_training.envs.vector import VectorEnv, following_seed, same_trees


class HostEnv(VectorEnv):
    """Base of vector environments made of gymnasium environments.

    Each may be wrapped in an `EpisodeLog`; then `set_state` re-runs its saved episode.
    """

    obs: Tree = torch.empty(0)
    seed = 0
    start = 0  # the number of its first environment among those of the run
    columns = ColumnReader()

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        self.columns = ColumnReader(keys)

    @abstractmethod
    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Calls the method of this name of every environment's `EpisodeLog`; returns the results in order."""

    def call_first(self, method: str, *arguments: Any) -> Any:
        """Calls the method of this name and returns the result of the first environment's `EpisodeLog`."""
        return self.call(method, *arguments)[0]

    def judge(self, achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
        reward, terminated = self.call_first("judge_goals", achieved.numpy(), desired.numpy())
        return torch.from_numpy(reward), torch.from_numpy(terminated)

    @property
    def why_no_judge(self) -> str | None:
        return self.call_first("why_no_judge")

    def get_state(self) -> dict:
        episodes = self.call("save_episode")
        rows = [{**e, "actions": torch.from_numpy(np.ascontiguousarray(e["actions"]))} for e in episodes]
        return {"episodes": rows, "obs": self.obs, "seed": self.seed}

    def set_state(self, state: dict) -> Tree | None:
        if self.state_kind != "boundary" and "obs" in state:
            if self.restore(state):
                self.obs, self.seed = state["obs"], state["seed"]
                return None
            self.state_kind = "boundary"
        return self.reset(following_seed(state["seed"]))

    def restore(self, state: dict) -> bool:
        """Re-runs the episodes in `state`, a result of `get_state`, in all environments.

        Returns True if they lead to the saved observations; False if they do not, or if the state holds no episodes.
        """
        if "episodes" not in state:  # of a vector environment that was handed over as an object
            return False
        others = [dict[str, Any]()] * self.start  # of those before its first, which are elsewhere
        episodes = others + [{**e, "actions": e["actions"].numpy()} for e in state["episodes"]]
        rows = self.call("restore_episode", episodes)
        return all(row is not None for row in rows) and same_trees(stack_rows(rows, self.spec.obs), state["obs"])
