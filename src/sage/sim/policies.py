"""Who repairs a task: the known repair, nobody, or a policy that plays the environment against real execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sage.sim.sandboxes import Backend
from sage.sim.tasks.task import Task

PLAYING = ("random", "ochiai")


class PolicyError(ValueError):
    """A policy that is not known or cannot be loaded."""


class SkippedError(ValueError):
    """A task that a policy cannot begin with; the reason is a code that reports count."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What somebody did to a task. Without files nothing was handed in, and `ended` says why."""

    files: Mapping[str, bytes] | None
    ended: str = "submit"
    cost: float = 0.0  # in the currency of the environment's rules
    actions: tuple[str, ...] = ("submit",)
    solved_in_environment: bool | None = None  # None: the environment was not played


Solver = Callable[[Backend, Task], Attempt]


@dataclass(frozen=True)
class Named:
    """A policy by its name; `facts` are what a result depends on."""

    solve: Solver
    facts: Mapping[str, object] = field(default_factory=dict)


def oracle(backend: Backend, task: Task) -> Attempt:
    return Attempt(files=task.repaired())


def noop(backend: Backend, task: Task) -> Attempt:
    return Attempt(files=task.files)


def named(name: str, seed: int) -> Named:
    """A policy of this package, or the one of a checkpoint."""
    if name == "oracle":
        return Named(oracle)
    if name == "noop":
        return Named(noop)
    if name not in PLAYING and not Path(name).exists():
        raise PolicyError(
            f"the policy {name!r} is neither oracle, noop, {', '.join(PLAYING)} nor a checkpoint that is there"
        )
    from sage.sim.environment import players

    if name in PLAYING:
        return players.playing(players.BASELINES[name], seed)
    return players.playing(players.learned(Path(name)), seed, checkpoint_sha256=players.identity(Path(name)))
