"""Checks of a config for samplers and ranks, and the choice of its device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rl_training.config.registry import ALGORITHMS
from rl_training.config.sections import GIVEN, NO_ENV
from rl_training.core import Algorithm
from rl_training.core.arguments import ConfigError

if TYPE_CHECKING:
    from rl_training.config.run_config import RunConfig


def check_sampling(config: RunConfig) -> None:
    """Raises ConfigError if other processes cannot step the run's environments, or the method allows no lag.

    Call it only for a config with `sampling.uses_samplers`.
    """
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
        if settings.can.on_device:
            raise ConfigError(
                f"{asked} is for environments on the host, and {section}.backend={settings.backend!r} steps tensor code "
                "together with the policy: use backend='gymnasium', or sampling.workers=1"
            )
        if not settings.can.samplers:
            raise ConfigError(
                f"{asked} builds environments in other processes, which {section}.backend={settings.backend!r} cannot: use "
                "backend='gymnasium', or sampling.workers=1"
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
    """Returns the divisor of `number` that is closest to `wanted`; of two, the smaller."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: abs(d - wanted))


def with_more_envs(config: RunConfig, parts: int) -> str:
    """Returns advice such as "env.n_envs=8 and experience.n_steps=64": settings that `parts` processes share equally.

    `env.n_envs` is raised to the next multiple of `parts`; rollout length and gradient steps are changed to fit.
    """
    wanted = -(-config.env.n_envs // parts) * parts
    length, times = config.experience.with_envs(config.env.n_envs, wanted)
    settings = {"env.n_envs": wanted} | {f"experience.{name}": value for name, value in length.items()}
    updates = getattr(config.algorithm, "gradient_steps", -1)  # -1: as many as env steps
    if times > 1 and updates > 0:
        settings["algorithm.gradient_steps"] = updates * times
    *most, last = [f"{name}={value}" for name, value in settings.items()]
    return f"{', '.join(most)} and {last}" if most else last


def check_shares(config: RunConfig, algorithm: Algorithm, ranks: int) -> None:
    """Raises ConfigError if `ranks` processes that learn together cannot share a run's environments and batches.

    The same holds for settings that are for one process. Does nothing for one rank.
    """
    if ranks == 1:
        return
    env, training = config.env, config.training
    if algorithm.why_not_shared is not None:
        raise ConfigError(
            f"{config.name} cannot be trained by {ranks} ranks, because {algorithm.why_not_shared}: use one process"
        )
    if config.sampling.uses_samplers:
        raise ConfigError(
            f"sampling.workers={config.sampling.workers} and sampling.lag={config.sampling.lag} are for one process that learns, "
            f"and these are {ranks} ranks, each with environments of its own: use sampling.workers=1, sampling.lag=0 and the "
            "engine 'processes', which are the defaults"
        )
    if training.compile is True:
        raise ConfigError(
            f"training.compile=true is for one process, and the updates of {ranks} ranks are not compiled: use "
            "training.compile=auto"
        )
    if training.overlap:
        raise ConfigError(
            f"training.overlap=true is for one process, not for {ranks} ranks: use training.overlap=false"
        )
    if training.device not in ("cpu", "cuda", "auto"):
        raise ConfigError(
            f"training.device={training.device!r} is one device, and every rank has its own: use training.device='cuda'"
        )
    if env.id.startswith(GIVEN):
        raise ConfigError(
            f"env.id={env.id} was handed over as an object, which {ranks} ranks cannot share: pass an id or a function"
        )
    if env.id != NO_ENV and env.n_envs % ranks:
        raise ConfigError(
            f"env.n_envs={env.n_envs} cannot be divided among {ranks} ranks, which share the environments of a run: use "
            f"{with_more_envs(config, ranks)}, or another number of ranks"
        )
    for a_pass in algorithm.passes():
        size, least = a_pass.batch_size, a_pass.length or 1
        if size is not None and (size % ranks or size // ranks < least):
            raise ConfigError(
                f"algorithm.batch_size={size} cannot be divided among {ranks} ranks, which share every batch: use a multiple "
                f"of {ranks * least}"
            )


def resolve_device(device: str) -> str:
    """Returns the device, with "auto" replaced by "cuda" if a GPU is usable and by "cpu" otherwise."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def on_device(values: dict, device: str) -> dict:
    """Returns a copy of config data with another `training.device`; turns `training.overlap` off unless it is a GPU.

    Raises ConfigError if `device` is not text.
    """
    if not isinstance(values.get("training", {}), dict):
        return values  # which is refused where it is read
    if not isinstance(device, str):
        raise ConfigError(f"training.device={device!r} must be text: use 'cpu', 'cuda' or 'auto'")
    training = values.get("training", {}) | {"device": device}
    if not resolve_device(device).startswith("cuda"):
        training["overlap"] = False
    return values | {"training": training}


def check_device(device: str, field: str) -> None:
    if device == "auto" and field == "training.device":
        return
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = "unknown"
    if kind not in ("cpu", "cuda"):
        choices = "'cpu', 'cuda' or 'auto'" if field == "training.device" else "'cpu' or 'cuda'"
        raise ConfigError(f"{field}={device!r} is not a device to train on: use {choices}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"{field}={device!r}, but this machine has no usable GPU: use 'cpu'")
