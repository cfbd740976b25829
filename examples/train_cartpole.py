"""Trains PPO on CartPole, evaluates it, saves it, loads it and acts."""

import tempfile
from pathlib import Path

import rl_training
from rl_training import PPO


def main() -> None:
    agent = PPO("CartPole-v1", seed=1, n_envs=8, n_steps=32, batch_size=256, n_epochs=20, learning_rate=1e-3)
    result = agent.learn(total_timesteps=10_000)
    print(f"{result.status}: {result.total_timesteps} steps, {result.gradient_steps} updates")

    mean, std = agent.evaluate(num_episodes=10)
    print(f"return {mean:.1f} +- {std:.1f}")

    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "model")
        loaded = rl_training.load(Path(folder) / "model")  # finds the algorithm itself
    obs = [0.0, 0.1, 0.02, -0.1]
    action, _ = loaded.predict(obs)
    assert action == agent.predict(obs)[0]
    print(f"action {action}")


if __name__ == "__main__":
    main()
