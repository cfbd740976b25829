"""Limits on the code that a config may run.

Your own config may run any code. A config from a file may run code that this process knows or that you named. A config
names code as 'package.module:name', and a file can be edited. So the config of a checkpoint or run directory imports
and calls nothing until it is known to be wanted. Nothing here imports anything that is not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import gymnasium as gym
from torch import nn

from rl_training.config.code_objects import named_by
from rl_training.config.presets import list_presets
from rl_training.config.run_config import RunConfig
from rl_training.core import AlgorithmConfig
from rl_training.core.arguments import ConfigError
from rl_training.core.entry_points import is_importable, why_not_importable
from rl_training.envs import BACKENDS, EnvConfig, NativeDynamics
from rl_training.envs.make import FACTORIES, is_registered

NAMED: set[str] = set()  # what configs of this process's own have named
ENVIRONMENTS = (("rl_training.envs", "gymnasium.envs"), (gym.Env, NativeDynamics))  # where ours are, and what they are
TEAMS = ("mpe2", "pettingzoo")  # whose environments only play
PURE = ("atari_preprocessing", "common", "stateful_action", "stateful_observation", "stateful_reward")
PURE += ("transform_action", "transform_observation", "transform_reward")  # modules whose wrappers write no files
WRAPPERS = (tuple(f"gymnasium.wrappers.{module}" for module in PURE), (gym.Wrapper,))
NETWORKS = (("rl_training.models",), (nn.Module,))


@dataclass(frozen=True)
class Trust:
    """The permission of a config to run code: any code, or that of `packages` if it is from the file `source`.

    Without `source`, it is the user's own. A config from a file may also name code of this package, and code that was
    passed or registered in this process.
    """

    source: Path | None = None  # the file that holds the config
    packages: tuple[str, ...] = ()  # and what is in them

    @classmethod
    def of(cls, source: Path, packages: Sequence[str]) -> Trust:
        """Builds the permission for a config from the file `source`, with the packages that a user trusts.

        Raises ConfigError if `packages` is no list of package names.
        """
        if not isinstance(packages, list | tuple):
            raise ConfigError(f"trust={packages!r} must be a list, e.g. trust=['my_package']")
        for name in packages:
            if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)*", name):
                raise ConfigError(f"trust: {name!r} is not the name of a package: give it as in an import, my_package")
        return cls(source, tuple(packages))

    def check_env(self, env: EnvConfig, field: str = "env.id") -> None:
        """Raises ConfigError if an environment or one of its wrappers names code that the config may not run.

        `field` is the setting that the message names.
        """
        backend = BACKENDS.get(env.backend)
        owned = backend is not None and env.id.startswith(backend.owns)  # by code that is installed
        if owned and backend is not None and backend.module_of is not None:  # which imports what the id names
            module = backend.module_of(env.id)
            owned = any(within(module, home) for home in TEAMS)
            if not owned and env.id not in NAMED and not self.allows(f"{module}:parallel_env", (), *ENVIRONMENTS):
                self.refuse(field, f"{module}:parallel_env")
            return
        known = ":" not in env.id or owned or is_registered(env)
        if not known and not self.allows(env.id, FACTORIES, *ENVIRONMENTS):
            self.refuse(field, env.id)
        for wrapper in env.wrappers:
            if not self.allows(wrapper.entry_point, (), *WRAPPERS):
                self.refuse(f"{field.removesuffix('id')}wrappers", wrapper.entry_point)

    def check_algorithm(self, settings: AlgorithmConfig) -> None:
        """Raises ConfigError if an encoder or schedule function in `settings` is code that the config may not run."""
        for field, path, known in named_by(settings):
            if not self.allows(path, known, *NETWORKS):
                self.refuse(field, path)

    def check_recipe(self, policies: Sequence[str]) -> None:
        """Raises ConfigError if a data recipe from a file would train a policy by a config that is no packaged preset.

        `policies` are names such as "random" or "ppo/cartpole@10000=0.5".
        """
        for policy in policies:
            name, separator, _ = policy.rpartition("=")
            preset, separator, _ = (name if separator else policy).rpartition("@")
            packaged = preset in list_presets() and not Path(preset).is_file()  # a file of that name would be taken
            if separator and self.source is not None and not packaged:
                raise ConfigError(
                    f"data.make.policies in {self.source} names {policy!r}, a config that is not one of the presets: make the "
                    "data with `rl-training data make` and hand it over, dataset=..."
                )

    def check(self, config: RunConfig) -> None:
        """Raises ConfigError if an environment, network, schedule or data recipe in a config is code it may not run."""
        for section, env in config.environments.items():
            self.check_env(env, f"{section}.id")
        self.check_algorithm(config.algorithm)
        if config.data.make is not None:
            self.check_recipe(config.data.make.policies)

    def allows(self, path: str, known: Container[str], homes: tuple[str, ...], kinds: tuple[type, ...]) -> bool:
        module = path.partition(":")[0]
        if self.source is None or path in known or path in NAMED or is_ours(path, homes, kinds):
            return True
        return any(within(module, package) for package in self.packages)

    def refuse(self, field: str, path: str) -> None:
        package = path.partition(":")[0].partition(".")[0]
        if not is_importable(path) and "-v" not in path:
            raise ConfigError(f"{field}={path!r} in {self.source} {why_not_importable(field)}")
        raise ConfigError(
            f"{field}={path!r} in {self.source} names code that is not known in this process: if you trust it, name its "
            f"package, --trust {package} (in Python trust=[{package!r}])"
        )


OWN = Trust()


def is_ours(path: str, homes: tuple[str, ...], kinds: tuple[type, ...]) -> bool:
    """Returns True if `path`, 'package.module:name', is a class of these `kinds` in one of the packages `homes`.

    Imports the module if it is in one of `homes`; returns False for functions.
    """
    module, _, name = path.partition(":")
    if not any(within(module, home) for home in homes):
        return False
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, kinds) and any(within(found.__module__, h) for h in homes)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def packages_of(config: RunConfig) -> list[str]:
    """Returns the sorted names of the packages that another process must trust to open a run of this config."""
    named = [imported_by(config, name) for name in names_in(config) if ":" in name and not is_ours(name, *WRAPPERS)]
    return sorted({name.partition(":")[0].partition(".")[0] for name in named} - {*TEAMS})


def imported_by(config: RunConfig, name: str) -> str:
    """Returns the module that the environment id `name` imports through its backend, or `name` as it is."""
    backends = [BACKENDS.get(env.backend) for env in config.environments.values() if env.id == name]
    named = (
        b.module_of(name) for b in backends if b is not None and b.module_of is not None and name.startswith(b.owns)
    )
    return next(named, name)


def remember(config: RunConfig) -> None:
    """Adds all code that a config names to the code that configs from files may name in this process.

    The config must be the user's own.
    """
    NAMED.update(names_in(config))


def names_in(config: RunConfig) -> list[str]:
    """Returns the environment ids, and the names of wrappers, encoders and schedule functions, in a config."""
    code = [path for _, path, _ in named_by(config.algorithm)]
    environments = config.environments.values()
    return [*(env.id for env in environments), *(w.entry_point for env in environments for w in env.wrappers), *code]
