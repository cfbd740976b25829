"""How good policies are on tasks that they have not seen, between chance and full knowledge."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.baselines import (
    Chooser,
    Episodes,
    Heuristic,
    chance,
    draws,
    episodes_of,
    oracle_returns,
    returns_of,
    tuned,
)
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.models import Models
from sage.sim.environment.packed import Packed

UNSEEN = ("test_pkg", "test_op")  # packages and operators that are not in training tasks
REPEATS = 20  # of every task, with other draws of what models answer


@dataclass(frozen=True)
class Score:
    """Of a policy on some tasks. `normalised` is 0 for chance and 1 for somebody who knows every outcome beforehand."""

    episode_return: float
    solved: float
    normalised: float
    spent: float


class Judge:
    """Plays policies on the same tasks with the same draws, and knows what chance and full knowledge get there."""

    def __init__(
        self,
        tasks: Packed,
        models: Models | None = None,
        *,
        repeats: int = REPEATS,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.dynamics = SoftwareTaskDynamics(tasks, models, shaping=False)
        drawn = draws(tasks, repeats, seed)
        self.uniform = drawn.to(device)
        self.full_knowledge = float(oracle_returns(self.dynamics, drawn).mean())
        self.random = float(
            returns_of(chance(torch.Generator(device).manual_seed(seed)), self.dynamics, self.uniform)[0].mean()
        )

    def score(self, choose: Chooser, dynamics: SoftwareTaskDynamics | None = None) -> Score:
        """`dynamics` replaces what the policy sees, for controls."""
        return self.score_of(self.play(choose, dynamics))

    def play(self, choose: Chooser, dynamics: SoftwareTaskDynamics | None = None) -> Episodes:
        """Every draw of every task."""
        return episodes_of(choose, dynamics or self.dynamics, self.uniform)

    def score_of(self, played: Episodes) -> Score:
        value = float(played.total.mean())
        share = (value - self.random) / (self.full_knowledge - self.random)
        return Score(value, float(played.solved.float().mean()), share, float(played.spent.mean()))


def constant(action: int) -> Chooser:
    """One action whenever it is allowed; then what was repaired is submitted, and otherwise it stops."""

    def choose(obs: dict[str, Tensor]) -> Tensor:
        mask = obs["action_mask"] > 0
        repaired = obs["progress"][..., 0] == 0
        rest = torch.where(repaired, rules.SUBMIT, rules.STOP)
        return torch.where(mask[..., action] & ~repaired, action, rest)

    return choose


def best_constant(judge: Judge) -> tuple[int, Score]:
    """The best action to do always, by hindsight on the judge's own tasks."""
    found = {action: judge.score(constant(action)) for action in range(rules.INSPECT)}
    best = max(found, key=lambda action: found[action].episode_return)
    return best, found[best]


def tuned_heuristic(tasks: Packed, models: Models | None = None) -> Heuristic:
    """The best heuristic on training tasks, which may ask models."""
    return tuned(tasks, SoftwareTaskDynamics(tasks, models, shaping=False))


def ochiai(tasks: Packed, models: Models | None = None) -> Heuristic:
    """Trials by suspicion, then escalation; how many is tuned on training tasks."""
    return tuned(tasks, SoftwareTaskDynamics(tasks, models, shaping=False), models=False)
