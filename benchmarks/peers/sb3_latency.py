"""Measures Stable-Baselines3's `predict` of one observation, for `benchmarks/predict_latency.py`; prints JSON."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from stable_baselines3 import DQN, PPO, SAC, __version__

CALLS, BATCHES = 50, 150


def microseconds(call: Callable[[], object]) -> dict[str, float]:
    call()
    batches = []
    for _ in range(BATCHES):
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        batches.append((time.perf_counter() - begun) / CALLS * 1e6)
    return {"least": min(batches), "median": statistics.median(batches)}


torch.set_num_threads(1)
AGENTS = {
    "PPO, CartPole, 64x64": PPO("MlpPolicy", "CartPole-v1"),
    "DQN, CartPole, 64x64": DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [64, 64]}),
    "SAC, Pendulum, 256x256": SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [256, 256]}),
}
found = {}
for cell, agent in AGENTS.items():
    obs = np.full(agent.observation_space.shape, 0.1, np.float32)
    found[cell] = {f"SB3 {__version__}": microseconds(lambda a=agent, o=obs: a.predict(o, deterministic=True))}
print(json.dumps(found))
