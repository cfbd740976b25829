"""A sandbox for one attempt at a task, with a deadline."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event

from sage.sandbox import Backend, Command, Files, Limits, Result, SandboxError
from sage.sandbox.contract import checked_files
from sage.sandbox.counted import CountingBackend


class InfrastructureError(Exception):
    """Failure of a sandbox, or the end of the run, which says nothing about the task or the policy."""


class DeadlineError(Exception):
    """A task that took longer than it may."""


class Watched(CountingBackend):
    """A sandbox for one attempt at a task: `run` raises DeadlineError at the deadline, and InfrastructureError if the
    sandbox itself fails."""

    def __init__(self, backend: Backend, deadline_s: float, stop: Event) -> None:
        super().__init__(backend)
        self.stop = stop
        self.begun = time.monotonic()
        self.deadline = self.begun + deadline_s

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        checked_files(files, limits)  # what is wrong with files is the failure of whoever made them
        left = self.left()
        try:
            result = super().run(files, command, replace(limits, wall_s=min(limits.wall_s, left)))
        except SandboxError as error:
            raise InfrastructureError(str(error)) from error
        self.check_stop()
        if result.ended_by == "broken":
            raise InfrastructureError(result.err.decode(errors="replace").strip())
        if left < limits.wall_s and result.ended_by == "wall_s":
            raise DeadlineError
        return result

    def left(self) -> float:
        """Returns the seconds until the deadline; raises DeadlineError if there are none, InfrastructureError if the
        run was stopped."""
        self.check_stop()
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlineError
        return left

    def check_stop(self) -> None:
        if self.stop.is_set():
            raise InfrastructureError("the run was stopped")

    def facts(self) -> dict:
        wall_s = time.monotonic() - self.begun
        return {"runs": self.runs, "sandbox_cpu_s": round(self.cpu_s, 3), "wall_s": round(wall_s, 3)}
