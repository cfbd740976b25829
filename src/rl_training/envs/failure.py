"""The error for environments that die or hang, and descriptions for its message."""

from __future__ import annotations

import signal


class EnvFailedError(ValueError):
    """An environment died or did not answer; the message says which, and what was asked of it last."""


def describe_env(index: int, seed: object, action: object) -> str:
    """Names an environment by its number, its seed and its last action."""
    known = [] if seed is None else [f"seed {seed}"]
    known += [] if action is None else [f"last action {' '.join(str(action).split())}"]
    return f"environment {index}" + (f" ({', '.join(known)})" if known else "")


def describe_exit(code: int | None) -> str:
    """Describes how a process ended, by signal or exit code."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
