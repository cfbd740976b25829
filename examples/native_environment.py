"""A batched environment as tensor code: 1,024 copies in one tensor, on the device of the learner, compiled with the policy.

All randomness comes in as uniform numbers; a state is a row of numbers, and a step returns the next rows.
"""

import torch
from torch import Tensor

from rl_training import PPO
from rl_training.core import Box, Discrete, Spec
from rl_training.envs import EnvConfig, NativeDynamics, check, register_native


class Catch(NativeDynamics):
    """A ball falls through a field; move left, stay or move right to be below it when it lands."""

    max_episode_steps = 20
    num_random = 2  # uniform numbers that a new episode takes
    spec = Spec(Box((3,), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), Discrete(3))

    def __init__(self, width: int = 9, height: int = 9) -> None:
        self.width, self.height = width, height

    def initial(self, uniform: Tensor) -> Tensor:
        """Columns of ball and hand, and the row of the ball: [num_envs, 3]."""
        columns = (uniform * self.width).floor().clamp(max=self.width - 1)
        return torch.cat([columns, torch.zeros_like(columns[:, :1])], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ball, hand, row = state.unbind(-1)
        hand = (hand + (action - 1)).clamp(0, self.width - 1)
        row = row + 1
        landed = row == self.height - 1
        reward = torch.where(landed, torch.where(hand == ball, 1.0, -1.0), 0.0)
        return torch.stack([ball, hand, row], -1), reward, landed

    def observe(self, state: Tensor) -> Tensor:
        ball, hand, row = state.unbind(-1)
        return torch.stack([ball / (self.width - 1), hand / (self.width - 1), row / (self.height - 1)], -1)


register_native("Catch-v0", Catch)
check(EnvConfig(id="Catch-v0", backend="native", n_envs=4, kwargs={"width": 5}))  # raises if the contract is broken

agent = PPO(
    "Catch-v0", backend="native", n_envs=1024, n_steps=16, batch_size=2048, n_epochs=4, learning_rate=3e-3, seed=0
)
before = agent.evaluate(200, deterministic=False).mean
agent.learn(300_000, progress=False)
caught, caught_before = ((1 + mean) / 2 for mean in (agent.evaluate(200).mean, before))
print(f"caught {caught_before:.0%} before training and {caught:.0%} after it")
if caught > 3 * caught_before:
    print("catches more than three times as often as at random")
