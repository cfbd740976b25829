"""A team whose agents die, appear late, come back and wait, at steps that are written down here."""

import torch
from torch import Tensor

from rl_training.core import AgentGroup, Box, Dict, Discrete, MultiBinary, TeamSpec
from rl_training.envs import TeamDynamics, TeamStep

REWARD = [[1, 1, 0], [2, 2, 32], [4, 3, 8], [0, 0, 16], [0, 5, 64]]  # by step and agent
ALIVE = [[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]]
ACTING = [[1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0]]
LENGTH = len(REWARD)


class Relay(TeamDynamics):
    """Runner 0 dies in step 2, in which runner 1 is cut off, to come back in step 4; runner 2 appears in step 1.

    Who does not act is allowed no action. The episode is over in step 4, whatever is done.
    """

    max_episode_steps, num_random = 100, 0
    obs = Dict({"observation": Box((LENGTH,), (0.0,) * LENGTH, (1.0,) * LENGTH), "action_mask": MultiBinary(2)})
    spec = TeamSpec.of(
        [AgentGroup("runner", ("runner_0", "runner_1", "runner_2"), obs, Discrete(2))],
        state=Box((LENGTH,), (0.0,) * LENGTH, (1.0,) * LENGTH),
        reward="sum",
        lives=True,
    )

    def initial(self, uniform: Tensor) -> Tensor:
        return uniform.new_zeros(len(uniform), 1)

    def at(self, table: list, state: Tensor) -> Tensor:
        return torch.tensor([*table, [0, 0, 0]])[state[:, 0].long()]  # after the last step nobody is left

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        in_step_2 = state == 2
        never = torch.zeros_like(in_step_2)
        return TeamStep(
            state + 1,
            self.at(REWARD, state).float(),
            state[:, 0] == LENGTH - 1,
            terminated=torch.cat([in_step_2, never, never], -1)
            | ((state == LENGTH - 1) & self.at(ALIVE, state).bool()),
            truncated=torch.cat([never, in_step_2, never], -1),
        )

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        where = torch.eye(LENGTH + 1)[state[:, 0].long(), :LENGTH]
        alive, acting = self.at(ALIVE, state), self.at(ACTING, state)
        return {
            "runner.observation": where.unsqueeze(1) * alive.unsqueeze(-1),
            "runner.action_mask": acting.unsqueeze(-1).expand(-1, -1, 2).float(),
            "alive": alive,
            "acting": acting,
            "state": where,
        }
