"""Scores of policies on tasks that they have not seen, between chance and full knowledge."""

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
    """Means over the episodes of a policy; `normalised` is 0 for chance and 1 for full knowledge of every outcome."""

    episode_return: float
    solved: float
    normalised: float
    spent: float


class Judge:
    """Evaluator that plays policies on the same tasks with the same draws; `random` and `full_knowledge` are the mean
    returns of the two ends of its scale."""

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
        """Returns the score of a policy; `dynamics` replaces the environment that the policy sees, for controls."""
        return self.score_of(self.play(choose, dynamics))

    def play(self, choose: Chooser, dynamics: SoftwareTaskDynamics | None = None) -> Episodes:
        """Returns the episodes of a policy, one for every draw of every task."""
        return episodes_of(choose, dynamics or self.dynamics, self.uniform)

    def score_of(self, played: Episodes) -> Score:
        value = float(played.total.mean())
        share = (value - self.random) / (self.full_knowledge - self.random)
        return Score(value, float(played.solved.float().mean()), share, float(played.spent.mean()))


def constant(action: int) -> Chooser:
    """Returns a policy that takes one action whenever it is allowed; it submits as soon as no test fails, and stops if
    the action is forbidden."""

    def choose(obs: dict[str, Tensor]) -> Tensor:
        mask = obs["action_mask"] > 0
        repaired = obs["progress"][..., 0] == 0
        rest = torch.where(repaired, rules.SUBMIT, rules.STOP)
        return torch.where(mask[..., action] & ~repaired, action, rest)

    return choose


def best_constant(judge: Judge) -> tuple[int, Score]:
    """Returns the action that is best to take always, by hindsight on the judge's own tasks, and its score."""
    found = {action: judge.score(constant(action)) for action in range(rules.INSPECT)}
    best = max(found, key=lambda action: found[action].episode_return)
    return best, found[best]


def tuned_heuristic(tasks: Packed, models: Models | None = None) -> Heuristic:
    """Returns the heuristic that is best on training tasks and may ask models."""
    return tuned(tasks, SoftwareTaskDynamics(tasks, models, shaping=False))


def ochiai(tasks: Packed, models: Models | None = None) -> Heuristic:
    """Returns the heuristic that is best on training tasks and asks no models: trials by suspicion, then escalation or
    a stop."""
    return tuned(tasks, SoftwareTaskDynamics(tasks, models, shaping=False), models=False)
