"""The error for environments that die or hang, and descriptions for its message."""

from __future__ import annotations

import signal


class EnvFailedError(ValueError):
    """The error for an environment that died or did not answer in time; its message has its number and last action."""


def describe_env(index: int, seed: object, action: object) -> str:
    """Returns a text such as "environment 2 (seed 7, last action 1)"; a seed or action that is None is left out."""
    known = [] if seed is None else [f"seed {seed}"]
    known += [] if action is None else [f"last action {' '.join(str(action).split())}"]
    return f"environment {index}" + (f" ({', '.join(known)})" if known else "")


def describe_exit(code: int | None) -> str:
    """Returns "was ended by SIGKILL" for the exit code -9, "ended with exit code 1" for 1, and so on."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
