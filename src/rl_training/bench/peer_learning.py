"""Cells that peers learn too, with the settings of our presets in their words."""

from __future__ import annotations

SB3: dict[str, dict] = {
    "ppo-pendulum": {
        "algorithm": "PPO",
        "env": "Pendulum-v1",
        "n_envs": 4,
        "total_timesteps": 100_000,
        "normalize": False,
        "settings": {
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 10,
            "gamma": 0.9,
            "gae_lambda": 0.95,
            "learning_rate": 1e-3,
        },
    },
    "trpo-hopper-300k": {
        "algorithm": "TRPO",
        "env": "Hopper-v5",
        "n_envs": 2,
        "total_timesteps": 300_000,
        "normalize": True,
        "settings": {
            "n_steps": 1024,
            "batch_size": 128,
            "n_critic_updates": 20,
            "cg_max_steps": 25,
            "cg_damping": 0.1,
            "learning_rate": 1e-3,
        },
    },
    "sac-pendulum": {
        "algorithm": "SAC",
        "env": "Pendulum-v1",
        "n_envs": 1,
        "total_timesteps": 20_000,
        "normalize": False,
        "settings": {"learning_rate": 1e-3, "learning_starts": 100, "batch_size": 256, "gradient_steps": 1},
    },
    "sac-fetch-reach": {
        "algorithm": "SAC",
        "env": "FetchReach-v4",
        "n_envs": 1,
        "total_timesteps": 20_000,
        "normalize": True,
        "hindsight": {"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        "settings": {
            "learning_rate": 1e-3,
            "learning_starts": 1000,
            "batch_size": 256,
            "gamma": 0.95,
            "buffer_size": 100_000,
            "policy_kwargs": {"net_arch": [64, 64]},
        },
    },
}
PEER_LEARNING = {"sb3": SB3}  # peer -> our cell -> its settings
