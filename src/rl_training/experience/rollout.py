"""On-policy experience: one rollout, prepared once, visited in shuffled minibatches, then dropped."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rl_training.core import Algorithm, Batch, Metrics, Transition, tree_map
from rl_training.experience.base import Experience
from rl_training.experience.reward_scaling import RewardScaling


class Rollout(Experience):
    """Holds up to `n_steps` steps of every environment; a cut rollout is kept and continued."""

    def __init__(
        self,
        n_steps: int,
        *,
        seed: int,
        reward_scaling: RewardScaling | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.n_steps, self.reward_scaling, self.device = n_steps, reward_scaling, device
        self.order = torch.Generator().manual_seed(seed)  # the data's order has a random stream of its own
        self.parts: list[Transition] = []
        self.num_samples = 0

    @property
    def wanted_steps(self) -> int:
        return self.n_steps - sum(part.reward.shape[0] for part in self.parts)

    def add(self, steps: Transition) -> None:
        self.parts.append(steps)

    def steps(self) -> Transition:
        if len(self.parts) > 1:
            self.parts = [tree_map(lambda *chunks: torch.cat(chunks), *self.parts)]
        return self.parts[0]

    def prepare(self, algorithm: Algorithm) -> tuple[Batch, Metrics]:
        steps = self.steps()
        if self.reward_scaling is not None:
            steps = self.reward_scaling.scale(steps)
        batch, metrics = algorithm.prepare(steps)
        self.num_samples = steps.reward.numel()
        return tree_map(lambda x: x.flatten(0, 1), batch), metrics

    def rows(self, algorithm: Algorithm) -> Iterator[Iterator[Tensor]]:
        for a_pass in algorithm.passes():
            for _ in range(a_pass.epochs):
                order = torch.randperm(self.num_samples, generator=self.order)
                yield iter(order.split(a_pass.batch_size or self.num_samples))

    def finish(self, algorithm: Algorithm) -> None:
        algorithm.observe(self.steps())
        self.parts = []

    def state_dict(self) -> dict:
        return {
            "steps": dict(self.steps()._asdict()) if self.parts else None,
            "order": self.order.get_state(),
            "reward_scaling": self.reward_scaling.state_dict() if self.reward_scaling else None,
        }

    def load_state_dict(self, state: dict) -> None:
        steps = state["steps"]
        self.parts = [tree_map(lambda x: x.to(self.device), Transition(**steps))] if steps is not None else []
        self.order.set_state(state["order"])
        if self.reward_scaling is not None:
            self.reward_scaling.load_state_dict(state["reward_scaling"])
