"""Uses an encoder of your own: `encoder='module:factory'`, called with the observation space."""

import torch
from torch import Tensor, nn

from rl_training import PPO
from rl_training.core import Box, Space


class FourierFeatures(nn.Module):
    """Sines and cosines of learned projections. An encoder has `features_dim` and maps [..., shape] to features."""

    def __init__(self, inputs: int, num_waves: int = 32) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, num_waves)
        self.features_dim = 2 * num_waves

    def forward(self, obs: Tensor) -> Tensor:
        phase = self.project(obs)
        return torch.cat([phase.sin(), phase.cos()], -1)


def fourier(space: Space) -> nn.Module:
    """The factory. It is named in the config, so a saved model can be built again."""
    assert isinstance(space, Box)
    return FourierFeatures(space.size)


def main() -> None:
    # The module must be importable by this name wherever the model is loaded; here it is this script.
    agent = PPO(
        "CartPole-v1",
        encoder="custom_encoder:fourier",
        share_features_extractor=False,  # one encoder for the policy, one for the value function
        n_envs=8,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=1e-3,
        seed=0,
    )
    agent.learn(4_000)
    print(f"encoder {type(agent.algorithm.policy.trunk).__name__}")
    print(f"return {agent.evaluate(10).mean:.1f}")


if __name__ == "__main__":
    main()
