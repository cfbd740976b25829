"""Environments that lack what learning needs: a policy that learns as much in one of them has not learned from it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics, compiled_tasks
from sage.sim.environment.suspects import NUM_SLOTS


class HistoryBlind(SoftwareTaskDynamics):
    """Does not show what was done before: neither actions nor trials nor what models answered."""

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        obs = super().observe(state)
        slots = obs["slots"].unflatten(-1, (NUM_SLOTS, rules.SLOT_FEATURES))
        known = torch.cat(
            [slots[..., :-2], torch.zeros_like(slots[..., -2:])], -1
        )  # without trials and their best result
        unseen = {name: torch.zeros_like(obs[name]) for name in ("history", "models", "progress", "kept")}
        return obs | unseen | {"slots": known.flatten(-2)}


class ShuffledObservations(SoftwareTaskDynamics):
    """Shows every episode what another one sees; only the mask is its own."""

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        obs = super().observe(state)
        return {name: value if name == "action_mask" else value.roll(1, 0) for name, value in obs.items()}


class PermutedRewards(SoftwareTaskDynamics):
    """Gives every episode the reward of another one, less the mean of all: otherwise a policy learns how long to play."""

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        after, reward, terminated = super().step(state, action)
        return after, reward.roll(1, 0) - reward.mean(), terminated


def history_blind(**settings: Any) -> SoftwareTaskDynamics:
    return compiled_tasks(**settings, kind=HistoryBlind)


def shuffled_observations(**settings: Any) -> SoftwareTaskDynamics:
    return compiled_tasks(**settings, kind=ShuffledObservations)


def permuted_rewards(**settings: Any) -> SoftwareTaskDynamics:
    return compiled_tasks(**settings, kind=PermutedRewards)
