"""Control environments that lack what learning needs: a policy that learns as much in one of them has not learned from
it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics, compiled_tasks
from sage.sim.environment.suspects import NUM_SLOTS


class HistoryBlind(SoftwareTaskDynamics):
    """An environment that does not show what was done before: neither actions nor trials nor answers of models."""

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        obs = super().observe(state)
        slots = obs["slots"].unflatten(-1, (NUM_SLOTS, rules.SLOT_FEATURES))
        known = torch.cat(
            [slots[..., :-2], torch.zeros_like(slots[..., -2:])], -1
        )  # without trials and their best result
        unseen = {name: torch.zeros_like(obs[name]) for name in ("history", "models", "progress", "kept")}
        return obs | unseen | {"slots": known.flatten(-2)}


class ShuffledObservations(SoftwareTaskDynamics):
    """An environment that shows every episode the observation of another one; only the action mask is its own."""

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        obs = super().observe(state)
        return {name: value if name == "action_mask" else value.roll(1, 0) for name, value in obs.items()}


class PermutedRewards(SoftwareTaskDynamics):
    """An environment that gives every episode the reward of another one, minus the mean of all, because otherwise a
    policy would learn how long to play."""

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        after, reward, terminated = super().step(state, action)
        return after, reward.roll(1, 0) - reward.mean(), terminated


history_blind = partial(compiled_tasks, kind=HistoryBlind)
shuffled_observations = partial(compiled_tasks, kind=ShuffledObservations)
permuted_rewards = partial(compiled_tasks, kind=PermutedRewards)
