"""Cascades without learning: a fixed ladder of models, and exploration around any cascade."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sage.policies.cascades.cascade_policy import ACCEPTED, CascadePolicy, CascadeStates, select_states
from sage.policies.policy import RoutingPolicy, select_rows, with_exploration


@dataclass(frozen=True)
class LadderCascade:
    """Tries its models one after the other until the verifier accepts; of a single model it is that model alone."""

    ladder: tuple[str, ...]
    name: str = "ladder"
    version: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.ladder or len(set(self.ladder)) != len(self.ladder):
            raise ValueError(f"ladder={list(self.ladder)!r} must be one or more different models")
        object.__setattr__(self, "version", hashlib.sha256(json.dumps(self.ladder).encode()).hexdigest()[:12])

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """The first rung that may be tried, unless an answer was accepted; where no rung is left, it stops.

        Where stopping is not possible and no rung may be tried, every eligible model has the same chance.
        """
        rungs = [models.index(model) for model in self.ladder if model in models]
        preference = np.zeros(eligible.shape)
        preference[:, rungs] = np.arange(len(rungs), 0, -1)
        preference[:, -1] = np.where((states.verdict == ACCEPTED).any(axis=1), len(rungs) + 1, 0.5)
        return highest_eligible(np.where(preference > 0, preference, -np.inf), eligible)


@dataclass(frozen=True)
class LadderByRole:
    """A ladder for every role that has one; tasks of other roles stop, and try any model if they must."""

    ladders: Mapping[str, tuple[str, ...]]
    name: str = "ladder"

    @property
    def version(self) -> str:
        return hashlib.sha256(json.dumps(dict(sorted(self.ladders.items()))).encode()).hexdigest()[:12]

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        found = highest_eligible(np.full(eligible.shape, -np.inf), eligible)
        for role, ladder in self.ladders.items():
            rows = np.flatnonzero(states.contexts.role == role)
            part = select_states(states, rows)
            found[rows] = LadderCascade(ladder).step_probabilities(part, models, eligible[rows])
        return found


@dataclass(frozen=True)
class SingleAttempt:
    """A routing policy as a cascade: its model answers, and that is the end."""

    policy: RoutingPolicy

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def version(self) -> str:
        return self.policy.version

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """In states that it would not come to, such as more than one attempt, it stops too."""
        chosen = np.zeros(eligible.shape)
        first = states.order.sum(axis=1) == 0
        contexts = select_rows(states.contexts, first)
        chosen[first, :-1] = self.policy.probabilities(contexts, models, eligible[first, :-1])
        chosen[~first, -1] = 1.0
        return chosen


@dataclass(frozen=True)
class ExploringCascade:
    """Another cascade, of which a share of the steps is drawn evenly among what is possible."""

    base: CascadePolicy
    exploration: float

    def __post_init__(self) -> None:
        if not 0 <= self.exploration <= 1:
            raise ValueError(f"exploration={self.exploration} must lie between 0 and 1: it is a share of the steps")

    @property
    def name(self) -> str:
        return f"{self.base.name} with {self.exploration:g} exploration"

    @property
    def version(self) -> str:
        return self.base.version

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return with_exploration(self.base.step_probabilities(states, models, eligible), eligible, self.exploration)


def highest_eligible(scores: np.ndarray, eligible: np.ndarray) -> np.ndarray:
    """[n, actions]: all on the highest score; where no eligible action has one, equal chances of models, or the stop."""
    scores = np.where(eligible, scores, -np.inf)
    chosen = np.zeros(eligible.shape)
    chosen[np.arange(len(chosen)), scores.argmax(axis=1)] = 1.0
    unknown = ~(scores > -np.inf).any(axis=1, keepdims=True)
    evenly = np.where(eligible[:, -1:], np.eye(eligible.shape[1])[-1], eligible / eligible.sum(axis=1, keepdims=True))
    return np.where(unknown, evenly, chosen)
