"""Agents that learn in a moment, and what is compared of them."""

from __future__ import annotations

from rl_training import A2C, PPO, Agent

SMALL = {"ppo": {"n_steps": 16, "batch_size": 16, "n_epochs": 2}, "a2c": {"n_steps": 4}}
KINDS = [PPO, A2C]
OBS = [0.01, -0.02, 0.03, 0.04]


def make(kind: type[Agent], env: object = "CartPole-v1", **settings: object) -> Agent:
    return kind(env, **SMALL[kind.name] | {"n_envs": 2, "seed": 1} | settings)


def state(agent: Agent) -> dict:
    """Everything but the clock."""
    tree = agent.snapshot().state
    return tree | {"progress": {k: v for k, v in tree["progress"].items() if k != "wall_time"}}
