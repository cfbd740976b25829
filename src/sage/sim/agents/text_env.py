"""Gymnasium environment of software tasks as texts: `gymnasium.make("sage/SoftwareText-v0", split="train")`."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from sage.grading.grading import grade
from sage.grading.task import Task
from sage.sandbox import Backend, choose
from sage.settings import cache_folder
from sage.sim.agents.episode import Budget, TextEpisode
from sage.sim.environment import rules
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from sage.sim.tasks.sources import Sources
from sage.workspace.workspace import MOST_SHOWN, shortened

MOST_SEEN = 3 * MOST_SHOWN + 2_000  # instruction, files and a result, and what is between them
MOST_SAID = 20_000


class SoftwareTextEnv(gymnasium.Env[str, str]):
    """An environment whose episodes are tasks drawn from a split; an action is the JSON of a call, and `info` has the
    task's id.

    Texts have ASCII only: other characters are shown as Python escapes them, and an action writes them as JSON does.
    """

    def __init__(
        self,
        tasks: str | Path | None = None,
        split: str = "train",
        *,
        sandbox: str = "auto",
        calls: int = rules.HORIZON,
        spent: float = rules.MOST_SPENT,
    ) -> None:
        manifest = Manifest.open(Path(tasks)) if tasks else Manifest.shipped()
        self.rows = {row["id"]: row for row in manifest.rows if row["split"] == split}
        if not self.rows:
            known = ", ".join(sorted({row["split"] for row in manifest.rows}))
            raise ValueError(f"split={split!r}: the tasks are of {known}")
        self.rebuilder = Rebuilder(Sources(cache_folder()), manifest.suites)
        self.budget = Budget(calls=calls, spent=spent)
        self.sandbox = sandbox
        self.backend: Backend | None = None
        self.episode: TextEpisode | None = None
        self.solved = False
        self.observation_space = spaces.Text(MOST_SEEN, charset=string.printable)
        self.action_space = spaces.Text(MOST_SAID, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins a task and returns its observation and info; `options={"task": ID}` chooses the task."""
        super().reset(seed=seed)
        if self.backend is None:
            self.backend = choose.open_backend(self.sandbox)
        self.episode = TextEpisode(self.backend, self.next_task((options or {}).get("task")), self.budget)
        self.solved = False
        return self.seen(self.episode), self.facts(self.episode)

    def next_task(self, wanted: str | None) -> Task:
        """Returns the task with the id `wanted`, or, if it is None, a random one that this machine can rebuild; raises
        ValueError if there is none."""
        if wanted is not None:
            if wanted not in self.rows:
                raise ValueError(f"options: the task {wanted!r} is not one of the {len(self.rows)} tasks of the split")
            return self.rebuilder.materialise(self.rows[wanted])
        problem = ""
        for place in self.np_random.permutation(len(self.rows)):
            try:
                return self.rebuilder.materialise(list(self.rows.values())[place])
            except RebuildError as error:
                problem = str(error)
        raise ValueError(f"none of the {len(self.rows)} tasks can be rebuilt here: {problem}")

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        episode = self.episode
        if episode is None or episode.ended:
            raise gymnasium.error.ResetNeeded("call reset() first: there is no open task")
        before = episode.spent
        episode.act(str(action))
        gained = before - episode.spent
        if episode.ended == "submit":
            self.solved = grade(episode.backend, episode.task, episode.workspace.files).solved
            gained += rules.SOLVED if self.solved else rules.WRONG
        truncated = episode.ended == "horizon"
        terminated = bool(episode.ended) and not truncated
        return self.seen(episode), gained * rules.SCALE, terminated, truncated, self.facts(episode)

    def seen(self, episode: TextEpisode) -> str:
        return shortened(printable(episode.observation), MOST_SEEN - 100)

    def facts(self, episode: TextEpisode) -> dict[str, Any]:
        return {"task": episode.task.id, "spent": episode.spent, "is_success": self.solved}

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()
            self.backend = None


def printable(text: str) -> str:
    """Returns the text with escapes for all that is not printable ASCII."""
    ascii_only = text.encode("ascii", "backslashreplace").decode()
    return "".join(char if char in string.printable else f"\\x{ord(char):02x}" for char in ascii_only)
