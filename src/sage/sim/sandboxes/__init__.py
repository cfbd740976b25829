"""Sandboxes: run a command on files without trusting either."""

from sage.sim.sandboxes.contract import Backend, Command, Files, Limits, Result, SandboxError
from sage.sim.sandboxes.session import Session

__all__ = ["Backend", "Command", "Files", "Limits", "Result", "SandboxError", "Session"]
