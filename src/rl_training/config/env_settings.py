"""The environments of a config: those trained in, and those of phases and evaluations, which may differ from them."""

from __future__ import annotations

from collections.abc import Iterable

from rl_training.config.parsing import check_once, parse_dataclass, to_plain
from rl_training.core import Groups
from rl_training.core.arguments import ConfigError
from rl_training.envs import NATIVE, EnvConfig

NO_ENV = "none"  # the id of a run that has no environment, only data
GIVEN = "object:"  # begins the id of a vector environment of which only the object is known
OWN_COLUMNS = ("timesteps", "env", "return", "length")  # of an episode, in episodes.jsonl


def check_env(env: EnvConfig, section: str) -> None:
    """Refuses settings of an environment that do not go together."""
    NATIVE.load(env.id)
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
        if not key:
            raise ConfigError(f"{section}.info_keys holds an empty name: give the names of keys that `info` has")
        if key in OWN_COLUMNS:
            raise ConfigError(
                f"{section}.info_keys: {key!r} is the name of an episode's own column: give it another name in a wrapper"
            )
    check_once(env.info_keys, f"{section}.info_keys")


def check_groups(env: EnvConfig, name: str, *, apart: bool) -> None:
    """Refuses two groups of observations for a method of one network."""
    if env.obs_groups != Groups() and not apart:
        raise ConfigError(
            f"env.obs_groups={to_plain(env.obs_groups)}: {name} has no critic apart from its policy, so there is nobody to see "
            "more than the policy does; drop it, or use PPO, SAC, DiscreteSAC or another method with actor and critic"
        )
    check_once(env.obs_groups.policy, "env.obs_groups.policy")
    check_once(env.obs_groups.critic, "env.obs_groups.critic")


def check_same_goals(places: Iterable[str]) -> None:
    """Refuses hindsight in a run that takes steps in several environments: one of them judges all."""
    for changes in places:
        if changes:
            raise ConfigError(
                f"experience.hindsight judges all steps by the goals of section env, and phases change it by {changes}: use one "
                "environment in all phases, or drop hindsight"
            )


def evaluation_env(env: EnvConfig, changes: dict[str, object]) -> EnvConfig:
    """The environment of evaluations: that of training with these changes."""
    if "n_envs" in changes:
        raise ConfigError(f"evaluation.env.n_envs={changes['n_envs']!r}: set evaluation.n_envs instead")
    return changed_env(env, changes, "evaluation.env")


def changed_env(env: EnvConfig, changes: dict[str, object], section: str) -> EnvConfig:
    """An environment that differs from that of section `env`.

    `kwargs` are changed key by key; another `id` begins without those of training. Native environments have no
    `vectorization`, so that of training is not taken over to them.
    """
    if not changes:
        return env
    inherited = to_plain(env)
    assert isinstance(inherited, dict)
    kwargs = changes.get("kwargs", {})
    if changes.get("id", env.id) == env.id and isinstance(kwargs, dict):
        kwargs = env.kwargs | kwargs
    if changes.get("backend") == "native":
        inherited["vectorization"] = "sync"
    result = parse_dataclass(EnvConfig, inherited | changes | {"kwargs": kwargs}, section)
    if result.obs_groups not in (Groups(), env.obs_groups):
        raise ConfigError(f"{section}.obs_groups: who sees what is settled in training, by env.obs_groups; drop it")
    if not can_be_built(result):
        raise ConfigError(f"{section} has no id, and that of training, env.id={env.id!r}, cannot be built: give it one")
    check_env(result, section)
    return result


def can_be_built(env: EnvConfig) -> bool:
    """Whether environments can be made from the settings alone."""
    return env.id != NO_ENV and not env.id.startswith(GIVEN)
