"""A backend that counts the runs of another one."""

from __future__ import annotations

from sage.sandbox.contract import Backend, Command, Files, Limits, Result


class CountingBackend:
    """Backend that passes runs on to another one, and adds up their number and processor time."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name
        self.cpu_s = 0.0
        self.runs = 0

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        result = self.backend.run(files, command, limits)
        self.cpu_s += result.cpu_s
        self.runs += 1
        return result

    def interrupt(self) -> None:
        self.backend.interrupt()

    def close(self) -> None:
        self.backend.close()
