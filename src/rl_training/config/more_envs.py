"""How a run gets more environments and goes on learning as often: advice for errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl_training.config.run_config import RunConfig


def with_more_envs(config: RunConfig, parts: int) -> str:
    """Settings with which `parts` can share the environments of a run equally."""
    wanted = -(-config.env.n_envs // parts) * parts
    length, times = config.experience.with_envs(config.env.n_envs, wanted)
    settings = {"env.n_envs": wanted} | {f"experience.{name}": value for name, value in length.items()}
    updates = getattr(config.algorithm, "gradient_steps", -1)  # -1: as many as env steps
    if times > 1 and updates > 0:
        settings["algorithm.gradient_steps"] = updates * times
    *most, last = [f"{name}={value}" for name, value in settings.items()]
    return f"{', '.join(most)} and {last}" if most else last
