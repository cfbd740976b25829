"""Zips that Stable-Baselines3 2.9.2 and sb3-contrib 2.9.2 wrote, and what their models did next.

`benchmarks/peers/sb3_import_golden.py` wrote them in an environment of its own.
"""

from pathlib import Path

import numpy as np

from rl_training import Agent
from rl_training.api.sb3 import import_sb3

FOLDER = Path(__file__).parent.parent.parent / "golden" / "sb3"
NUMBERS = dict(np.load(FOLDER / "golden.npz"))
KINDS = {
    "ppo": "PPO",
    "a2c": "A2C",
    "trpo": "TRPO",
    "recurrent_ppo": "RecurrentPPO",
    "dqn": "DQN",
    "qr_dqn": "QRDQN",
    "ddpg": "DDPG",
    "td3": "TD3",
    "sac": "SAC",
    "tqc": "TQC",
    "crossq": "CrossQ",
    "ppo_normalized": "PPO",
    "ppo_pictures": "PPO",
    "ppo_cartpole": "PPO",
    "sac_dict": "SAC",
}
STATISTICS = FOLDER / "ppo_normalized.pkl"


def golden(name: str, **changes: object) -> Agent:
    """The agent in a golden zip."""
    if name == "ppo_normalized":
        changes = {"vecnormalize": STATISTICS} | changes
    return import_sb3(FOLDER / f"{name}.zip", **changes)


def seen_by(name: str) -> object:
    """The 1,000 observations of the script, which writes down no more than their formula."""
    size = 4 if name == "ppo_cartpole" else 3
    rows = np.arange(1_000 * size, dtype=np.float64).reshape(1_000, size)
    obs = (2.5 * np.sin(rows * rows % 997.0)).astype(np.float32)
    if name == "sac_dict":
        return {"first": np.tanh(obs[:, :2]), "second": np.tanh(obs[:, 2:])}
    if name == "ppo_pictures":
        pattern = (np.add.outer(np.arange(36), np.arange(36)) % 7 * 20).astype(np.uint8)
        return (np.abs(obs[:, :1]) * 100).astype(np.uint8).repeat(36 * 36, 1).reshape(-1, 1, 36, 36) ^ pattern
    return obs


def actions(agent: Agent, name: str) -> np.ndarray:
    """The actions on all observations; an agent with memory sees them one after the other, in episodes of 100."""
    if name != "recurrent_ppo":
        return agent.predict(seen_by(name))[0]
    state, found = None, []
    for number, obs in enumerate(seen_by(name)):
        action, state = agent.predict(obs, state, number % 100 == 0)
        found.append(action)
    return np.stack(found)
