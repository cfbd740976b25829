"""Which runs can have their environments stepped by samplers, and what to change in those that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl_training.config.more_envs import with_more_envs
from rl_training.config.registry import ALGORITHMS
from rl_training.config.sections import GIVEN
from rl_training.core.arguments import ConfigError

if TYPE_CHECKING:
    from rl_training.config.run_config import RunConfig


def check_sampling(config: RunConfig) -> None:
    """Refuses samplers for environments that cannot be built in another process, and lag that nobody corrects."""
    sampling, env = config.sampling, config.env
    asked = next(
        f"sampling.{name}={getattr(sampling, name)!r}"
        for name, default in (("workers", 1), ("engine", "processes"), ("lag", 0))
        if getattr(sampling, name) != default
    )
    if env.n_envs % sampling.workers:
        raise ConfigError(
            f"sampling.workers={sampling.workers} does not divide env.n_envs={env.n_envs}: every worker steps as many "
            f"environments, so use sampling.workers={nearest_divisor(env.n_envs, sampling.workers)}, or "
            f"{with_more_envs(config, sampling.workers)}"
        )
    for section, settings in config.environments.items():
        if section == "evaluation.env":
            continue
        if settings.backend == "native":
            raise ConfigError(
                f"{asked} is for environments on the host, and {section}.backend='native' steps tensor code together with "
                "the policy: use backend='gymnasium', or sampling.workers=1"
            )
        if settings.vectorization != "sync":
            raise ConfigError(
                f"{asked} with {section}.vectorization={settings.vectorization!r}: samplers are the processes, so use "
                "vectorization='sync'"
            )
        if settings.id.startswith(GIVEN):
            raise ConfigError(
                f"{asked} builds environments in other processes, and this one was handed over as an object "
                f"({settings.id}): pass an id or a function that returns one environment"
            )
    if config.training.overlap:
        raise ConfigError(f"{asked} with training.overlap=true: samplers overlap by sampling.lag=1, drop overlap")
    if sampling.lag and config.needs.experience == "rollout" and not ALGORITHMS[config.name].algorithm.corrects_lag:
        raise ConfigError(
            f"sampling.lag={sampling.lag}: {config.name} learns from rollouts as if its newest policy had taken them; use "
            "sampling.lag=0, or a method that corrects for older ones (impala, appo), or one with a replay"
        )


def nearest_divisor(number: int, wanted: int) -> int:
    """The divisor of a number that is closest to another."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: abs(d - wanted))
