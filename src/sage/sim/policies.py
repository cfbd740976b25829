"""Policies that repair a task: the known repair, no repair, players of the environment against real execution, and
programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sage.grading.task import Task
from sage.policies.notation import REPAIRING, unknown_policy
from sage.sandbox import Backend

PLAYING = ("random", "ochiai")
COMMAND = "command:"  # before the words that start an agent


class PolicyError(ValueError):
    """A policy that is not known or cannot be loaded."""


class SkippedError(ValueError):
    """A task that a policy cannot begin with; the message is a code that reports count."""


@dataclass(frozen=True, kw_only=True)
class RepairAttempt:
    """A policy's work on one task; `files` is None if nothing was handed in, and `ended` says why."""

    files: Mapping[str, bytes] | None
    ended: str = "submit"
    cost: float = 0.0  # in the currency of the environment's rules
    actions: tuple[str, ...] = ("submit",)
    solved_in_environment: bool | None = None  # None: the environment was not played


Solver = Callable[[Backend, Task], RepairAttempt]


@dataclass(frozen=True)
class Named:
    """A policy; `facts` are the settings that its results depend on."""

    solve: Solver
    facts: Mapping[str, object] = field(default_factory=dict)


def oracle(backend: Backend, task: Task) -> RepairAttempt:
    return RepairAttempt(files=task.repaired())


def noop(backend: Backend, task: Task) -> RepairAttempt:
    return RepairAttempt(files=task.files)


FIXED = {"oracle": oracle, "noop": noop}


def named(name: str, seed: int, *, models: Path | None = None, transcripts: Path | None = None) -> Named:
    """Returns the policy with a name of this package, of a checkpoint's path, or of a program after `command:`; raises
    PolicyError if the name or an option does not fit.

    `models` is a file of models that the policy may ask in the environment; `transcripts` is a folder that gets the
    calls of programs.
    """
    is_command = name.startswith(COMMAND)
    if models is not None and (is_command or name in FIXED):
        raise PolicyError(
            f"--fitted-models is for policies that play the environment, and {name!r} asks no models: leave it out"
        )
    if is_command:
        from sage.sim.agents.commanded import commanded

        return commanded(name.removeprefix(COMMAND), transcripts)
    if transcripts is not None:
        raise PolicyError(f"--transcripts is for agents, and the policy {name!r} calls no tools: leave it out")
    if name in FIXED:
        return Named(FIXED[name])
    if name not in PLAYING and not Path(name).exists():
        raise PolicyError(unknown_policy(name, REPAIRING))
    from sage.sim.environment import players
    from sage.sim.environment.models import open_models

    asked = open_models(models)
    if name in PLAYING:
        return players.playing(players.BASELINES[name], seed, asked)
    return players.playing(players.learned(Path(name)), seed, asked, checkpoint_sha256=players.identity(Path(name)))
