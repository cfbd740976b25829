"""Uses an encoder of your own: `encoder=`, a class or a function of the observation space."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import rl_training
from rl_training import PPO
from rl_training.core import Box
from rl_training.models import check_encoder


class FourierFeatures(nn.Module):
    """Sines and cosines of learned projections. An encoder has `features_dim` and maps [rows, *shape] to features."""

    def __init__(self, space: Box, num_waves: int = 32) -> None:
        super().__init__()
        self.project = nn.Linear(space.size, num_waves)
        self.features_dim = 2 * num_waves

    def forward(self, obs: Tensor) -> Tensor:
        phase = self.project(obs)
        return torch.cat([phase.sin(), phase.cos()], -1)


def main() -> None:
    check_encoder(FourierFeatures, "CartPole-v1")
    agent = PPO(
        "CartPole-v1",
        encoder=FourierFeatures,
        share_features_extractor=False,  # one encoder for the policy, one for the value function
        n_envs=8,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=lambda progress: 1e-3 * (1 - progress / 2),
        seed=0,
    )
    agent.learn(4_000)
    print(f"encoder {agent.config.to_mapping()['algorithm']['encoder']}")
    print(f"return {agent.evaluate(10).mean:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "model")
        # Another process has to be told: this script cannot be imported by a name. What stands in a module of yours is
        # found there by itself, with trust=["my_package"].
        same = rl_training.load(Path(folder) / "model", encoder=FourierFeatures, learning_rate=lambda progress: 1e-3)
        print(f"loaded {same.evaluate(10).mean:.1f}")


if __name__ == "__main__":
    main()
