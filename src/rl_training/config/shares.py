"""What workers can share: the settings of a run are those of all of them together, and each has an equal part."""

from __future__ import annotations

from rl_training.config.more_envs import with_more_envs
from rl_training.config.run_config import RunConfig
from rl_training.config.sections import GIVEN, NO_ENV
from rl_training.core import Algorithm
from rl_training.core.arguments import ConfigError


def check_shares(config: RunConfig, algorithm: Algorithm, ranks: int) -> None:
    """Refuses what so many ranks cannot share equally."""
    if ranks == 1:
        return
    env, training = config.env, config.training
    if algorithm.why_not_shared is not None:
        raise ConfigError(
            f"{config.name} cannot be trained by {ranks} ranks, because {algorithm.why_not_shared}: use one process"
        )
    if config.sampling.apart:
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
