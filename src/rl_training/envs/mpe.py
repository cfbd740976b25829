"""Two tasks of the multi-agent particle environments as tensor code; a test compares every step with mpe2's.

Lowe et al., 2017, arXiv:1706.02275. Observations, actions, rewards and time limits are those of mpe2's
`simple_spread_v3` and `simple_speaker_listener_v4`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.core import Box, Discrete
from rl_training.core.teams import AgentGroup, TeamReward, TeamSpec
from rl_training.envs.drawing import draw_particles
from rl_training.envs.teams import TeamDynamics, TeamStep

DT, DAMPING, SENSITIVITY = 0.1, 0.25, 5.0
CONTACT_FORCE, CONTACT_MARGIN = 100.0, 0.001
NUM_MOVES = 5


def anywhere(size: int) -> Box:
    return Box((size,), (-math.inf,) * size, (math.inf,) * size)


def move(position: Tensor, velocity: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """Returns positions and velocities [..., 2] after a step of particles of mass 1 under a force [..., 2]."""
    return position + velocity * DT, velocity * (1 - DAMPING) + force * DT


def push(action: Tensor) -> Tensor:
    """Returns the force [..., 2] of the actions 0 to 4, [...]: nothing, left, right, down, up."""
    x, y = (action == 2).float() - (action == 1).float(), (action == 4).float() - (action == 3).float()
    return torch.stack([x, y], -1) * SENSITIVITY


def uniform_positions(uniform: Tensor) -> Tensor:
    return uniform * 2 - 1


class SimpleSpread(TeamDynamics):
    """`num_agents` agents are to cover as many landmarks without bumping into each other.

    An agent earns `local_ratio` of its own reward, -1 for each agent that it touches, and the rest of the team's, minus
    the distance from every landmark to its nearest agent. The team's return is the sum (or mean) over its agents.
    """

    max_episode_steps = 25
    contact = 0.3  # the sum of two agents' radii

    def __init__(self, num_agents: int = 3, local_ratio: float = 0.5, team_reward: TeamReward = "sum") -> None:
        if num_agents < 2 or not 0 <= local_ratio <= 1 or team_reward not in ("sum", "mean"):
            raise ValueError(
                f"num_agents={num_agents} must be at least 2, local_ratio={local_ratio} between 0 and 1, and "
                f"team_reward={team_reward!r} 'sum' or 'mean'"
            )
        self.num, self.local_ratio = num_agents, local_ratio
        self.num_random = 4 * num_agents
        size = 2 + 2 + 2 * num_agents + 4 * (num_agents - 1)
        names = tuple(f"agent_{index}" for index in range(num_agents))
        group = AgentGroup("agent", names, anywhere(size), Discrete(NUM_MOVES))
        self.spec = TeamSpec.of([group], state=anywhere(num_agents * size), reward=team_reward)

    def parts(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the positions and velocities of agents and the positions of landmarks, [num_envs, agents, 2] each."""
        position, velocity, landmark = state.unflatten(-1, (3, self.num, 2)).unbind(-3)
        return position, velocity, landmark

    def initial(self, uniform: Tensor) -> Tensor:
        position, landmark = uniform_positions(uniform).chunk(2, -1)
        return torch.cat([position, torch.zeros_like(position), landmark], -1)

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        position, velocity, landmark = self.parts(state)
        position, velocity = move(position, velocity, push(action["agent"]) + self.collisions(position))
        gap = position.unsqueeze(-2) - landmark.unsqueeze(-3)
        apart = position.unsqueeze(-2) - position.unsqueeze(-3)
        team = -gap.square().sum(-1).sqrt().amin(-2).sum(-1, keepdim=True)
        touched = (apart.square().sum(-1).sqrt() < self.contact).sum(-1) - 1  # itself
        reward = team * (1 - self.local_ratio) - touched * self.local_ratio
        over = torch.zeros(len(state), dtype=torch.bool, device=state.device)
        return TeamStep(torch.stack([position, velocity, landmark], -3).flatten(-3), reward, over)

    def collisions(self, position: Tensor) -> Tensor:
        """Returns the force [num_envs, agents, 2] by which agents that touch push each other away."""
        apart = position.unsqueeze(-2) - position.unsqueeze(-3)
        distance = apart.square().sum(-1).sqrt()
        depth = F.softplus((self.contact - distance) / CONTACT_MARGIN) * CONTACT_MARGIN
        strength = CONTACT_FORCE * depth / distance.clamp(min=1e-12)
        return (apart * strength.unsqueeze(-1)).sum(-2)  # no force on itself: apart is 0

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        position, velocity, landmark = self.parts(state)
        landmarks = (landmark.unsqueeze(-3) - position.unsqueeze(-2)).flatten(-2)
        apart = position.unsqueeze(-3) - position.unsqueeze(-2)
        own = torch.arange(self.num, device=state.device).unsqueeze(-1)
        number = torch.arange(self.num - 1, device=state.device)
        others = apart[..., own, number + (number >= own), :].flatten(-2)
        silence = torch.zeros_like(others)
        seen = torch.cat([velocity, position, landmarks, others, silence], -1)
        return {"agent": seen, "state": seen.flatten(-2)}

    def render(self, state: Tensor) -> np.ndarray:
        position, _, landmark = self.parts(state)
        return draw_particles(position.tolist(), landmark.tolist(), None, self.contact / 2)


class SimpleSpeakerListener(TeamDynamics):
    """A speaker sees which of three landmarks is the goal, and a listener, who hears it, is to go there.

    Both earn minus the squared distance between listener and goal.
    """

    max_episode_steps = 25
    num_random = 9
    spec = TeamSpec.of(
        [
            AgentGroup("speaker", ("speaker_0",), anywhere(3), Discrete(3)),
            AgentGroup("listener", ("listener_0",), anywhere(11), Discrete(NUM_MOVES)),
        ],
        state=anywhere(14),
    )

    def initial(self, uniform: Tensor) -> Tensor:
        goal = F.one_hot((uniform[:, 8] * 3).long(), 3).to(uniform.dtype)
        places = uniform_positions(uniform[:, :8])
        return torch.cat(
            [places[:, :2], torch.zeros_like(places[:, :2]), places[:, 2:], goal, torch.zeros_like(goal)], -1
        )

    def step(self, state: Tensor, action: dict[str, Tensor], uniform: Tensor) -> TeamStep:
        position, velocity, landmarks, goal, _ = state.split((2, 2, 6, 3, 3), -1)
        position, velocity = move(position, velocity, push(action["listener"][:, 0]))
        said = F.one_hot(action["speaker"][:, 0], 3).to(state.dtype)
        target = (landmarks.unflatten(-1, (3, 2)) * goal.unsqueeze(-1)).sum(-2)
        over = torch.zeros(len(state), dtype=torch.bool, device=state.device)
        state = torch.cat([position, velocity, landmarks, goal, said], -1)
        return TeamStep(state, -(position - target).square().sum(-1), over)

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        position, velocity, landmarks, goal, said = state.split((2, 2, 6, 3, 3), -1)
        gaps = (landmarks.unflatten(-1, (3, 2)) - position.unsqueeze(-2)).flatten(-2)
        speaker, listener = goal * 0.5 + 0.15, torch.cat([velocity, gaps, said], -1)
        both = torch.cat([speaker, listener], -1)
        return {"speaker": speaker.unsqueeze(1), "listener": listener.unsqueeze(1), "state": both}

    def render(self, state: Tensor) -> np.ndarray:
        position, _, landmarks, goal, _ = state.split((2, 2, 6, 3, 3), -1)
        return draw_particles(position[None].tolist(), landmarks.view(3, 2).tolist(), int(goal.argmax()), 0.075)


MPE = {"mpe/simple_spread": SimpleSpread, "mpe/simple_speaker_listener": SimpleSpeakerListener}
