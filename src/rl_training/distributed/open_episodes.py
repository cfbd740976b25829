"""The learner's log of every open episode, from which a lost sampler is replaced."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch


class OpenEpisodes:
    """A log of how each environment's open episode began and of the actions since; checkpoints contain both.

    A sampler that replaces a lost one repeats these actions, to bring the environments back to where they were.
    """

    def __init__(self, num_envs: int) -> None:
        self.starts: list[dict] = [{}] * num_envs
        self.actions: list[list[np.ndarray]] = [[] for _ in range(num_envs)]  # in pieces

    def begin(self, starts: Mapping[int, dict]) -> None:
        """Empties the logs of the environments in `starts`, because new episodes begin there.

        `starts` maps the number of an environment to how its episode began, for example `{"seed": 3}`.
        """
        for env, start in starts.items():
            self.starts[env], self.actions[env] = start, []

    def add(self, actions: np.ndarray, ended: np.ndarray, starts: Mapping[int, dict]) -> None:
        """Appends actions, [time, env, ...] in the environments' units, to the logs of the episodes still open.

        `ended`, [time, env], marks the last steps of episodes: actions up to them are dropped. `starts` maps the number
        of an environment in which an episode ended to how its newest episode began.
        """
        self.begin(starts)
        for env in range(len(self.starts)):
            ends = np.flatnonzero(ended[:, env])
            piece = actions[ends[-1] + 1 if len(ends) else 0 :, env]
            if len(piece):
                self.actions[env].append(piece)

    def rows(self) -> list[dict]:
        """Returns a dict per environment: "start", how its open episode began, and "actions", a tensor [time, ...]."""
        for env, pieces in enumerate(self.actions):
            self.actions[env] = [np.concatenate(pieces)] if pieces else []
        return [
            {"start": start, "actions": torch.from_numpy(np.array(pieces[0] if pieces else []))}
            for start, pieces in zip(self.starts, self.actions, strict=True)
        ]

    def load(self, rows: list[dict]) -> None:
        """Replaces the logs of all environments by `rows`, a list that the method `rows` returned."""
        self.starts = [row["start"] for row in rows]
        self.actions = [[row["actions"].numpy().copy()] if len(row["actions"]) else [] for row in rows]
