"""Run directories as runs leave them, written by hand: quick, and in any state."""

from __future__ import annotations

import json
import math
from pathlib import Path

import yaml

HORIZON, INTERVAL = 10_000, 1_000


def config_of(algorithm: str = "ppo", env: str = "CartPole-v1", seed: int = 0, **settings: object) -> dict:
    return {
        "algorithm": {"name": algorithm, "gamma": 0.99, **settings},
        "env": {"id": env, "n_envs": 8},
        "training": {"total_timesteps": HORIZON, "total_updates": 0, "seed": seed},
    }


def write_run(
    path: Path,
    config: dict,
    *,
    until: int = HORIZON,
    level: float = 1.0,
    result: dict | None = None,
    metrics: list[dict] | None = None,
    episodes: list[dict] | None = None,
) -> Path:
    """Writes the files of a run that has come to the step `until`; its returns grow with steps up to 100 * `level`.

    `result` changes result.json; a `status` of None leaves it out, as in a run without an end.
    """
    seed = config["training"]["seed"]
    values = [(step, 100 * level * step / HORIZON + seed) for step in range(INTERVAL, until + 1, INTERVAL)]
    if metrics is None:
        metrics = [row for step, value in values for row in (logged(step, value), evaluated(step, value))]
    if episodes is None:
        episodes = [{"timesteps": step - 50, "env": 0, "return": value, "length": 100} for step, value in values]
    ended = {
        "status": "finished",
        "reason": "budget",
        "algorithm": config["algorithm"]["name"],
        "env_id": config["env"]["id"],
        "seed": seed,
        "total_timesteps": until,
        "offline_updates": 0,
        "wall_time_s": 12.5,
        "steps_per_second": 800.0,
        "eval_mean_return": values[-1][1] if values else None,
    } | (result or {})
    metadata = {"started": "2026-11-19T01:03:12+0000", "command": ["rl-training", "train"], "python": "3.11.7"}
    metadata |= {"versions": {"torch": "2.13.0"}, "git": "635efd69", "hardware": {"cores": 2}}
    (path / "checkpoints" / f"step-{until:012d}").mkdir(parents=True)
    texts = {"config.yaml": yaml.safe_dump(config), "metadata.json": json.dumps(metadata)}
    for name, rows in (("metrics.jsonl", metrics), ("episodes.jsonl", episodes)):
        texts[name] = "".join(json.dumps(row) + "\n" for row in rows)
    texts |= {"result.json": json.dumps(ended)} if ended["status"] else {}
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


def logged(step: int, value: float) -> dict:
    health = {"train/loss": 1 / step, "train/entropy_loss": None if step == INTERVAL else math.sin(step)}
    return {"timesteps": step, **health, "rollout/ep_rew_mean": value, "time/fps": 800.0, "time/total_timesteps": step}


def evaluated(step: int, value: float) -> dict:
    returns = [value - 1, value + 1]
    return {"timesteps": step, "eval/mean_reward": value, "eval/returns": returns, "health/q_bias": -value}
