"""The notation of `--policy` in every command: NAME, NAME:VALUE, or the path of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

ROUTING = ("static", "uniform", "epsilon:E (as epsilon:0.1)")  # which choose a model
REPAIRING = ("oracle", "noop", "random", "ochiai", "command:PROGRAM")  # which repair a task of the simulator


def policy_help(named: Sequence[str]) -> str:
    """Returns the help of an option that takes one of these names, or a checkpoint."""
    return f"{', '.join(named)}, or a checkpoint"


def unknown_policy(text: str, named: Sequence[str]) -> str:
    """Returns the sentence that refuses a policy which is neither one of these names nor a file."""
    return f"policy={text!r} is not known: use {', '.join(named)}, or a checkpoint that is there"
