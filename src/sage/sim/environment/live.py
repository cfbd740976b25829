"""Episodes against real execution, by the rules of the tensor code; outcomes are executed when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sage.sim.environment import packed, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics, split
from sage.sim.environment.growing import Growth
from sage.sim.environment.models import Models


class Policy(Protocol):
    """Interface of a policy that chooses an action from one observation of `sage/SoftwareTask-v0`; `mask` is 1 for what
    may be done."""

    def predict(self, obs: Mapping[str, np.ndarray], mask: np.ndarray) -> int: ...


class LiveDynamics(SoftwareTaskDynamics):
    """The environment of one task, whose table grows as its episodes need it."""

    def __init__(self, growth: Growth, models: Models | None = None, *, shaping: bool = False) -> None:
        super().__init__(packed.packed([growth.table]), models, shaping=shaping)
        self.growth = growth

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        is_ask = (action >= rules.ASK) & (action < rules.INSPECT)
        if (is_ask | (action == rules.ESCALATE)).any():  # how hard a task is for models depends on its whole table
            self.grow()
        self.grow_for(state)
        return super().step(state, action)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        self.grow_for(state)
        return super().observe(state)

    def grow_for(self, state: Tensor) -> None:
        """Expands the nodes at which a statement was inspected, because their allowed trials must be known."""
        columns = split(state)
        nodes = columns.node[columns.inspected.any(-1)]
        if len(nodes):
            self.grow(through=int(torch.where(nodes < rules.ORACLE, nodes, 0).max()))

    def grow(self, through: int = rules.ORACLE - 1) -> None:
        if self.growth.expand(through):
            self.tasks = packed.packed([self.growth.table])
            self.moved.clear()


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Record of a policy's episode: its actions, return and cost in the currency of the rules, and `node`, the tree of
    files at its end."""

    actions: tuple[int, ...]
    total: float  # rewards, without shaping if the dynamics have none
    spent: float
    solved: bool
    node: int

    @property
    def ended(self) -> str:
        last = self.actions[-1]
        return rules.TYPES[last] if last in (rules.SUBMIT, rules.ESCALATE, rules.STOP) else "horizon"


def played(policy: Policy, dynamics: SoftwareTaskDynamics, uniform: Tensor) -> Episode:
    """Plays one episode and returns it; `uniform` [1, num_random] decides what is left to chance. Raises ValueError if
    the policy chooses an action that does not exist."""
    state, total, actions = dynamics.initial(uniform), 0.0, []
    while len(actions) < rules.HORIZON:
        obs = {name: value[0].numpy() for name, value in dynamics.observe(state).items()}
        action = int(policy.predict(obs, obs["action_mask"]))
        if not 0 <= action < rules.NUM_ACTIONS:
            raise ValueError(f"the policy chose action {action}: there are {rules.NUM_ACTIONS}, from 0")
        actions.append(action)
        state, reward, terminated = dynamics.step(state, torch.tensor([action]))
        total += float(reward) / rules.SCALE
        if terminated:
            break
    facts = dynamics.info(state)
    return Episode(
        actions=tuple(actions),
        total=total,
        spent=float(facts["spent"]),
        solved=bool(facts["is_success"]),
        node=int(split(state).node),
    )
