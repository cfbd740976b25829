"""How long to train: what a call to `learn` asks for, on top of what is done."""

from __future__ import annotations

import logging
from typing import Annotated

from rl_training.config import ConfigError, RunConfig
from rl_training.config.parsing import parse_value
from rl_training.core.arguments import SEED
from rl_training.core.ranges import Real, Share
from rl_training.runtime import Progress, Trainer

log = logging.getLogger(__name__)


def check_idle(trainer: Trainer | None, call: str) -> None:
    """Refuses what cannot be done in the middle of a run."""
    if trainer is not None and trainer.running:
        raise ConfigError(
            f"{call}() was called while this agent learns, from a callback or another thread: wait until `learn` has "
            "returned, or use another agent"
        )


def with_budget(
    config: RunConfig, progress: Progress, total_timesteps: int | None, total_updates: int | None
) -> RunConfig:
    """The config of a run that is to take so many further env steps, and updates from data alone."""
    if total_timesteps is None and total_updates is None:
        if not config.training.horizon:
            raise ConfigError(
                "how long? learn(total_updates=...) learns from the dataset alone, learn(total_timesteps=...) steps the "
                "environment"
            )
        if progress.timesteps >= config.training.horizon:
            log.warning(f"this run is done ({progress.text}), so learn() takes no step: learn(N) takes N further ones")
        return config
    changes = {"total_timesteps": progress.env_steps}
    if total_timesteps is not None:
        changes["total_timesteps"] += parse_steps(total_timesteps, "total_timesteps")
    if total_updates is not None:
        changes["total_updates"] = progress.offline_updates + parse_steps(total_updates, "total_updates")
    return config.changed("training", **changes)


def pause_at(stop_at: int | None, config: RunConfig, progress: Progress) -> int:
    """What both clocks together show when a call to `learn` ends: at `stop_at`, or with the run."""
    horizon = config.training.horizon
    stop = horizon if stop_at is None else min(parse_steps(stop_at, "stop_at"), horizon)
    if stop < min(progress.timesteps, horizon):
        together = f", {progress.timesteps:,} together" if progress.offline_updates and progress.env_steps else ""
        raise ConfigError(f"stop_at={stop} lies behind this run, which has {progress.text}{together}: raise it")
    return stop


def parse_flag(value: object, name: str) -> bool:
    flag = parse_value(bool, value, name)
    assert isinstance(flag, bool)
    return flag


def parse_seed(value: object, name: str = "seed") -> int:
    """Returns a seed that torch and gymnasium take."""
    seed = parse_value(Annotated[int, SEED], value, name)
    assert isinstance(seed, int)
    return seed


def parse_share(value: object, name: str) -> float:
    """Returns a number between 0 and 1, both included."""
    share = parse_value(Share, value, name)
    assert isinstance(share, float)
    return share


def parse_confidence(value: object, name: str) -> float:
    """Returns a number between 0 and 1, both excluded."""
    level = parse_value(Real, value, name)
    assert isinstance(level, float)
    if not 0 < level < 1:
        raise ConfigError(f"{name}={level:g} must lie between 0 and 1, e.g. 0.95")
    return level


def parse_steps(value: object, name: str, least: int = 1) -> int:
    steps = parse_value(int, value, name)
    assert isinstance(steps, int)
    if steps < least:
        raise ConfigError(f"{name}={steps} must be at least {least}")
    return steps
