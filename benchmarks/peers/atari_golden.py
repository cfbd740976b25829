"""Writes tests/golden/atari_frames.json: checksums of the observations that gymnasium's own wrappers make of Atari games.

Needs ale-py, gymnasium and OpenCV, which AtariPreprocessing uses, in an environment of its own:

python benchmarks/peers/atari_golden.py
"""

from __future__ import annotations

import json
import zlib
from importlib.metadata import version
from pathlib import Path

import ale_py
import gymnasium as gym
import numpy as np

GAMES = {"Pong": 120, "Breakout": 260, "Seaquest": 120}  # steps; a game of Breakout ends on the way


def record(game: str, num_steps: int) -> dict:
    """Returns actions, and for each step a checksum of the stack, the reward, and if the game ended."""
    env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.AtariPreprocessing(env, noop_max=0, frame_skip=4, screen_size=84, grayscale_obs=True)
    env = gym.wrappers.FrameStackObservation(env, 4)
    obs, _ = env.reset(seed=0)
    found: dict = {
        "first": zlib.crc32(obs.tobytes()),
        "actions": [],
        "sums": [],
        "rewards": [],
        "ends": [],
        "firsts": [],
    }
    for action in np.random.default_rng(0).integers(0, env.action_space.n, num_steps).tolist():
        obs, reward, terminated, _, _ = env.step(action)
        row = (action, zlib.crc32(obs.tobytes()), reward, terminated)
        for name, value in zip(("actions", "sums", "rewards", "ends"), row, strict=True):
            found[name].append(value)
        if terminated:
            obs, _ = env.reset()
            found["firsts"].append(zlib.crc32(obs.tobytes()))
    return found


if __name__ == "__main__":
    gym.register_envs(ale_py)
    target = Path(__file__).parents[2] / "tests" / "golden" / "atari_frames.json"
    games = {game: record(game, num_steps) for game, num_steps in GAMES.items()}
    made = {name: version(name) for name in ("ale-py", "gymnasium", "opencv-python-headless")}
    target.write_text(json.dumps({"versions": made, "games": games}) + "\n", encoding="utf-8")
