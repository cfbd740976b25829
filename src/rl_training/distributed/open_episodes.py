"""How every open episode began and what was done in it, kept beside samplers that may be lost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch


class OpenEpisodes:
    """The log of every environment's episode, as `EpisodeLog` would have it if the environments were here.

    A checkpoint holds it, and a sampler that takes the place of another re-runs it.
    """

    def __init__(self, num_envs: int) -> None:
        self.starts: list[dict] = [{}] * num_envs
        self.actions: list[list[np.ndarray]] = [[] for _ in range(num_envs)]  # in pieces

    def begin(self, starts: Mapping[int, dict]) -> None:
        """Starts new episodes in some environments."""
        for env, start in starts.items():
            self.starts[env], self.actions[env] = start, []

    def add(self, actions: np.ndarray, ended: np.ndarray, starts: Mapping[int, dict]) -> None:
        """Takes [time, env] actions in the environments' units, where episodes ended, and how the last ones began."""
        self.begin(starts)
        for env in range(len(self.starts)):
            ends = np.flatnonzero(ended[:, env])
            piece = actions[ends[-1] + 1 if len(ends) else 0 :, env]
            if len(piece):
                self.actions[env].append(piece)

    def rows(self) -> list[dict]:
        """What `HostEnv.get_state` holds of the episodes."""
        for env, pieces in enumerate(self.actions):
            self.actions[env] = [np.concatenate(pieces)] if pieces else []
        return [
            {"start": start, "actions": torch.from_numpy(np.array(pieces[0] if pieces else []))}
            for start, pieces in zip(self.starts, self.actions, strict=True)
        ]

    def load(self, rows: list[dict]) -> None:
        """Goes on from a saved state."""
        self.starts = [row["start"] for row in rows]
        self.actions = [[row["actions"].numpy().copy()] if len(row["actions"]) else [] for row in rows]
