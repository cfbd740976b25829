"""The learner's log of every open episode, from which a lost sampler is replaced."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch


class OpenEpisodes:
    """The start and actions of every environment's open episode, in the form of `EpisodeLog`.

    Checkpoints contain it, and a sampler that replaces another re-runs it.
    """

    def __init__(self, num_envs: int) -> None:
        self.starts: list[dict] = [{}] * num_envs
        self.actions: list[list[np.ndarray]] = [[] for _ in range(num_envs)]  # in pieces

    def begin(self, starts: Mapping[int, dict]) -> None:
        """Starts new logs in the environments of `starts`, which maps them to how their episode began."""
        for env, start in starts.items():
            self.starts[env], self.actions[env] = start, []

    def add(self, actions: np.ndarray, ended: np.ndarray, starts: Mapping[int, dict]) -> None:
        """Adds [time, env] actions in the environments' units; drops those of episodes that ended, by the mask `ended`.

        `starts` maps an environment to how its newest episode began, if an earlier one ended here.
        """
        self.begin(starts)
        for env in range(len(self.starts)):
            ends = np.flatnonzero(ended[:, env])
            piece = actions[ends[-1] + 1 if len(ends) else 0 :, env]
            if len(piece):
                self.actions[env].append(piece)

    def rows(self) -> list[dict]:
        """Returns the start and actions of every episode, as `HostEnv.get_state` does."""
        for env, pieces in enumerate(self.actions):
            self.actions[env] = [np.concatenate(pieces)] if pieces else []
        return [
            {"start": start, "actions": torch.from_numpy(np.array(pieces[0] if pieces else []))}
            for start, pieces in zip(self.starts, self.actions, strict=True)
        ]

    def load(self, rows: list[dict]) -> None:
        """Replaces the log by saved rows."""
        self.starts = [row["start"] for row in rows]
        self.actions = [[row["actions"].numpy().copy()] if len(row["actions"]) else [] for row in rows]
