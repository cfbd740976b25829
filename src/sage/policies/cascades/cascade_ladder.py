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
    """A cascade that tries its models in order until the verifier accepts an answer.

    Raises ValueError for an empty ladder or a repeated model.
    """

    ladder: tuple[str, ...]
    name: str = "ladder"
    version: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.ladder or len(set(self.ladder)) != len(self.ladder):
            raise ValueError(f"ladder={list(self.ladder)!r} must be one or more different models")
        object.__setattr__(self, "version", hashlib.sha256(json.dumps(self.ladder).encode()).hexdigest()[:12])

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n, models + 1] with all probability on the first eligible model of the ladder.

        After an accepted answer, or if no model of the ladder is left, it is on stopping; if stopping is not possible
        either, all eligible models have the same chance.
        """
        rungs = [models.index(model) for model in self.ladder if model in models]
        preference = np.zeros(eligible.shape)
        preference[:, rungs] = np.arange(len(rungs), 0, -1)
        preference[:, -1] = np.where((states.verdict == ACCEPTED).any(axis=1), len(rungs) + 1, 0.5)
        return highest_eligible(np.where(preference > 0, preference, -np.inf), eligible)


@dataclass(frozen=True)
class LadderByRole:
    """A ladder for each role that has one; tasks of other roles stop, or try any model if they cannot stop yet."""

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
    """A routing policy as a cascade of one attempt."""

    policy: RoutingPolicy

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def version(self) -> str:
        return self.policy.version

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n, models + 1]: the policy's probabilities before the first attempt, and stopping after it."""
        chosen = np.zeros(eligible.shape)
        first = states.order.sum(axis=1) == 0
        contexts = select_rows(states.contexts, first)
        chosen[first, :-1] = self.policy.probabilities(contexts, models, eligible[first, :-1])
        chosen[~first, -1] = 1.0
        return chosen


@dataclass(frozen=True)
class ExploringCascade:
    """Another cascade, mixed with even chances of all eligible actions; these have the weight `exploration`.

    Raises ValueError unless `exploration` lies between 0 and 1.
    """

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
    """Returns [n, actions] with all probability on the eligible action that has the highest score.

    `scores` and `eligible` are [n, actions]; the last column is to stop. Where no eligible action has a score above
    minus infinity, the probability is on stopping if that is eligible, and else even over the eligible models.
    """
    scores = np.where(eligible, scores, -np.inf)
    chosen = np.zeros(eligible.shape)
    chosen[np.arange(len(chosen)), scores.argmax(axis=1)] = 1.0
    unknown = ~(scores > -np.inf).any(axis=1, keepdims=True)
    evenly = np.where(eligible[:, -1:], np.eye(eligible.shape[1])[-1], eligible / eligible.sum(axis=1, keepdims=True))
    return np.where(unknown, evenly, chosen)
