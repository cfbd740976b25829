"""Policies that write logs: an order of preference, and any policy mixed with exploration."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from sage.policies.checkpoint import load_policy
from sage.policies.notation import ROUTING, unknown_policy
from sage.policies.plausible import PlausibleModels
from sage.policies.policy import Contexts, RoutingPolicy, with_exploration

Loaded = TypeVar("Loaded")


class PolicySpecError(ValueError):
    """A policy in the wrong notation; the message shows the right one."""


@dataclass(frozen=True)
class PreferenceOrder:
    """A policy that takes the first eligible model of an order; models that are not in the order come last, by name."""

    order: tuple[str, ...]
    name: str = "static"

    @property
    def version(self) -> str:
        return hashlib.sha256("\0".join(self.order).encode()).hexdigest()[:12]

    def choices(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """int [n]: the model of each row."""
        place = {model: i for i, model in enumerate((*self.order, *sorted(set(models) - set(self.order))))}
        rank = np.where(eligible, [place[model] for model in models], len(place))
        return rank.argmin(axis=1)

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.eye(len(models))[self.choices(contexts, models, eligible)]

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.ones(len(eligible))


@dataclass(frozen=True)
class Exploring:
    """Another policy, mixed with even chances of the eligible models; these have the weight `epsilon`.

    With `among`, only plausible models are explored. Raises PolicySpecError unless `epsilon` lies between 0 and 1.
    """

    base: RoutingPolicy
    epsilon: float
    among: PlausibleModels | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise PolicySpecError(f"epsilon={self.epsilon} must lie between 0 and 1")

    @property
    def name(self) -> str:
        return f"{self.base.name}+epsilon:{self.epsilon:g}"

    @property
    def version(self) -> str:
        return self.base.version

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        explored = eligible if self.among is None else self.among.mask(contexts, models, eligible)
        return with_exploration(self.base.probabilities(contexts, models, eligible), explored, self.epsilon)

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return self.base.confidence(contexts, models, eligible)


def parse_policy(
    text: str, base: RoutingPolicy, load: Callable[[str | Path], Loaded] = load_policy
) -> RoutingPolicy | Loaded:
    """Returns the policy that a text names: `static` (the base itself), `uniform`, `epsilon:0.1` around the base, or a file.

    `load` reads the file, a checkpoint. Raises PolicySpecError for any other text.
    """
    kind, _, value = text.partition(":")
    if kind == "epsilon":
        try:
            return Exploring(base, float(value))
        except ValueError as error:
            raise PolicySpecError(f"policy={text!r}: write epsilon:E with E between 0 and 1, as epsilon:0.1") from error
    if text == "uniform":
        return Exploring(base, 1.0)
    if text == "static":
        return base
    if Path(text).exists():
        return load(text)
    raise PolicySpecError(unknown_policy(text, ROUTING))
