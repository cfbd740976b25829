"""Sandboxes: they run commands on files, and trust neither."""

from sage.sandbox.contract import Backend, Command, Files, Limits, Result, SandboxError
from sage.sandbox.session import Session

__all__ = ["Backend", "Command", "Files", "Limits", "Result", "SandboxError", "Session"]
