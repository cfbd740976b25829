"""What needs no learning in the environments of `bench learn`: uniform random actions, and every constant action.

.venv/bin/python benchmarks/floors.py    # writes results/floors.json; FLOORS in bench/baselines.py holds the best

A constant action is each of a finite set, or the middle of the bounds of a continuous one. Episode k is reset with seed k,
and random actions are drawn with seed 0.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import gymnasium as gym

OUT = Path(__file__).parent / "results" / "floors.json"
EPISODES = 200
ENVIRONMENTS = (
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "LunarLander-v3",
    "InvertedPendulum-v5",
    "Hopper-v5",
    "HalfCheetah-v5",
)


def blind_policies(env: gym.Env) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ways to act that look at nothing, by name."""
    space = env.action_space
    space.seed(0)
    yield "random", space.sample
    if isinstance(space, gym.spaces.Discrete):
        for action in range(int(space.n)):
            yield f"action {action}", lambda action=action: action
    else:
        assert isinstance(space, gym.spaces.Box)
        middle = (space.low + space.high) / 2
        yield "action 0", lambda: middle


def episode_return(env: gym.Env, act: Callable[[], object], seed: int) -> float:
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(act())
        total, over = total + float(reward), terminated or truncated
    return total


def measure(env_id: str) -> dict[str, dict[str, float]]:
    found = {}
    with gym.make(env_id) as env:
        for name, act in blind_policies(env):
            returns = [episode_return(env, act, seed) for seed in range(EPISODES)]
            found[name] = {
                "mean": round(statistics.fmean(returns), 2),
                "std": round(statistics.stdev(returns), 2),
                "max": round(max(returns), 2),
            }
            print(env_id, name, found[name], flush=True)
    return found


def main() -> None:
    versions = {name: version(name) for name in ("gymnasium", "mujoco", "box2d")}
    results = {
        "command": "python benchmarks/floors.py",
        "episodes": EPISODES,
        "versions": versions | {"python": platform.python_version()},
        "returns": {env_id: measure(env_id) for env_id in ENVIRONMENTS},
    }
    OUT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
