"""Transitions of agents that may wait or die, found when rows are drawn from a replay of a team's steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from rl_training.core import StepBatch, Tree
from rl_training.core.teams import (
    ACTING,
    AGENT_DISCOUNT,
    AGENT_REWARD,
    AGENT_TERMINATED,
    AGENT_TRUNCATED,
    AGENT_WEIGHT,
    ALIVE,
    OWN_STEPS,
    TeamSpec,
    joint,
)
from rl_training.experience.declared_columns import refusal
from rl_training.experience.ring import Ring, RingColumns
from rl_training.functional import ENDED, TERMINATED
from rl_training.functional.waiting import own_return

if TYPE_CHECKING:
    from rl_training.experience.settings import StoreContext


class OwnSteps:
    """A finder of agents' own transitions, from a row in which an agent acts to the next one or its end.

    It looks at `longest` env steps from the drawn one on. A transition that is not complete there has weight 0.
    """

    def __init__(self, ring: Ring, spec: TeamSpec, longest: int, *, n_steps: int, gamma: float) -> None:
        assert ring.frame_stack == 1  # no backend with several agents stacks frames
        self.ring, self.spec, self.longest = ring, spec, longest
        self.n_steps, self.gamma = n_steps, gamma
        self.ahead = torch.arange(longest + 1, device=ring.device).unsqueeze(-1)

    @classmethod
    def asked_for(cls, ring: Ring, run: StoreContext, n_steps: int) -> Self | None:
        """Returns a finder if the algorithm asks for agents' own transitions with a column, else None.

        Raises a ValueError if all agents always act, or if the column's shape is not the number of env steps to look at.
        """
        asked = next((column for column in run.columns if column.name == OWN_STEPS), None)
        if asked is None:
            return None
        if not isinstance(run.spec, TeamSpec):
            raise refusal(asked, "a replay", "one agent has no own steps; drop it")
        if not run.spec.lives:
            raise refusal(
                asked, "a replay", "all agents always act, as TeamSpec.lives is False; drop it, or use lives=True"
            )
        if len(asked.shape) != 1:
            raise refusal(
                asked,
                "a replay",
                f"its shape is {asked.shape}, not (the longest wait in env steps,); use e.g. shape=(32,)",
            )
        return cls(ring, run.spec, asked.shape[0], n_steps=n_steps, gamma=run.gamma)

    def put_into(self, batch: StepBatch, storage: RingColumns, row: Tensor) -> StepBatch:
        """Returns a batch of the rows with the indices `row`, with every agent's own rewards, discount and weight.

        They are columns [row, agent]. In `next_obs`, each agent has what it observes when its own transitions are over;
        the global state is that after the env step.
        """
        ring, given = self.ring, storage.declared
        rows = (row + self.ahead * ring.num_envs) % ring.capacity  # [time, row]
        before = rows[:-1]
        newer = (storage.written[row % ring.num_envs] - 1 - row // ring.num_envs) % ring.slots  # steps after this one
        reward = given[AGENT_REWARD][before] if AGENT_REWARD in given else storage.reward[before].unsqueeze(-1)
        flags = storage.flags[before].unsqueeze(-1)
        terminated = given[AGENT_TERMINATED][before] | (flags & TERMINATED != 0)
        ended = terminated | given[AGENT_TRUNCATED][before] | (flags & ENDED != 0)
        found = own_return(
            reward.expand(ended.shape),
            terminated,
            ended,
            joint(storage.obs)[ACTING][rows].bool(),
            (self.ahead[:-1] <= newer).unsqueeze(-1),
            n=self.n_steps,
            gamma=self.gamma,
        )
        own = {
            AGENT_REWARD: found.reward,
            AGENT_DISCOUNT: found.discount,
            AGENT_WEIGHT: found.counts * batch.weight.unsqueeze(-1),
        }
        after = (row.unsqueeze(-1) + found.steps * ring.num_envs) % ring.capacity
        return batch._replace(next_obs=self.successors(batch, storage, after), columns=batch.columns | own)

    def successors(self, batch: StepBatch, storage: RingColumns, after: Tensor) -> Tree:
        """Returns a joint observation in which each agent has its part of the row in `after`, [row, agent]."""
        stored, agents = joint(storage.obs), torch.arange(after.shape[1], device=after.device)
        own = {key: stored[key][after, agents] for key in (ALIVE, ACTING)}
        for group in self.spec.members:
            rows = after[:, self.spec.rows_of(group.name)]
            own |= {key: stored[key][rows, agents[: len(group.agents)]] for key in group.keys.values()}
        return joint(batch.next_obs) | own
