"""Who steps the environments of a run may change whenever it is resumed: it learns the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from rl_training.config import ConfigError, RunConfig
from rl_training.config.parsing import parse_dataclass, shortened
from rl_training.config.sections import SamplingConfig


def sampled_anew(config: RunConfig, changes: Mapping[str, object]) -> RunConfig:
    """The config of a run that goes on with other samplers."""
    if not isinstance(changes, Mapping):
        raise ConfigError(
            f"sampling={shortened(changes)} must be a mapping of settings, e.g. sampling={{'workers': 4}}"
        )
    if changes.get("lag", config.sampling.lag) != config.sampling.lag:
        raise ConfigError(
            f"sampling.lag={changes['lag']!r}: a resumed run keeps its lag, which is {config.sampling.lag}, because another "
            "one changes what is learned; start a new run, or leave it out"
        )
    section = parse_dataclass(SamplingConfig, asdict(config.sampling) | dict(changes), "sampling")
    return config.changed("sampling", **asdict(section))


def sampled_as(config: RunConfig, other: RunConfig) -> RunConfig:
    """A config in which samplers are those of another; the lag stays."""
    return config.replace("sampling", **asdict(other.sampling) | {"lag": config.sampling.lag})
