"""Which settings of an environment go together."""

from __future__ import annotations

from rl_training.envs import NATIVE, EnvConfig
from rl_training.experiment.parsing import ConfigError

OWN_COLUMNS = ("timesteps", "env", "return", "length")  # of an episode, in episodes.jsonl


def check_env(env: EnvConfig, section: str) -> None:
    """Refuses settings of an environment that do not go together."""
    if env.backend == "native" and env.vectorization != "sync":
        raise ConfigError(
            f"{section}.vectorization={env.vectorization!r} is for gymnasium: native environments need none"
        )
    if env.backend == "native" and env.id not in NATIVE and ":" not in env.id:
        raise ConfigError(
            f"{section}.id={env.id!r} has no native version: use one of {', '.join(NATIVE)}, 'package.module:factory', "
            f"rl_training.envs.register_native, or {section}.backend='gymnasium'"
        )
    for key in env.info_keys:
        if key in OWN_COLUMNS or not key:
            raise ConfigError(
                f"{section}.info_keys: {key!r} is the name of an episode's own column: give it another name in a wrapper"
            )
        if env.info_keys.count(key) > 1:
            raise ConfigError(f"{section}.info_keys names {key!r} twice: name it once")
