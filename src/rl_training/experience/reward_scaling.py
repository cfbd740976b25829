"""Rewards divided by the running deviation of the discounted return: the scale goes, the sign and the zero stay."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.core import Transition
from rl_training.core.tree import saved_tensors
from rl_training.functional import RunningMoments, discounted_returns, merge_moments


class RewardScaling:
    """Statistics of the return of all environments; a rollout is scaled after it was counted."""

    def __init__(self, gamma: float, clip: float) -> None:
        self.gamma, self.clip = gamma, clip
        self.moments = RunningMoments(*(torch.tensor(x, dtype=torch.float64) for x in (0.0, 1.0, 0.0)))
        self.last: Tensor | None = None  # the running return of every environment
        self.first: Tensor | None = None  # where an episode starts with the next row

    def scale(self, steps: Transition) -> Transition:
        reward = steps.reward.double()
        done = steps.terminated | steps.truncated
        last = torch.zeros_like(reward[0]) if self.last is None else self.last.to(reward.device)
        first = torch.ones_like(done[0]) if self.first is None else self.first.to(reward.device)
        returns = discounted_returns(reward, last, torch.cat([first[None], done[:-1]]), self.gamma)
        self.moments = merge_moments(self.moments, returns[steps.valid])
        self.last, self.first = returns[-1], done[-1]
        scaled = (reward / (self.moments.var + 1e-8).sqrt()).clamp(-self.clip, self.clip)
        return steps._replace(reward=scaled.to(steps.reward.dtype))

    def cut(self) -> None:
        """Ends every open episode: what is scaled next does not follow from it."""
        if self.first is not None:
            self.first = torch.ones_like(self.first)

    def state_dict(self) -> dict:
        return {"moments": dict(self.moments._asdict()), "last": self.last, "first": self.first}

    def load_state_dict(self, state: dict) -> None:
        for name in ("moments", *(name for name in ("last", "first") if state[name] is not None)):
            saved_tensors(state[name], f"reward_scaling.{name}")
        self.take_moments(state["moments"])
        self.last, self.first = state["last"], state["first"]

    def take_moments(self, moments: dict) -> None:
        """Begins with statistics from elsewhere; episodes begin anew."""
        self.moments = RunningMoments(**moments)
