"""Registries of names for configs: from this package, registered in this process, or from an installed package."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, NamedTuple, TypeVar

from rl_training.core.algorithm import Algorithm, AlgorithmConfig

T = TypeVar("T")
Tier = Literal["core", "contrib"]  # core: it reached a number that others published; contrib: it passes the suite
# What a module that is imported may raise; a stop that was asked for is no fault of it.
BUGS = (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, RuntimeError, OSError, LookupError)


class Registry(dict[str, T]):
    """A dict of registered objects by name; installed packages declare further names and are imported on first use."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = f"rl_training.{group}"  # of entry points

    @cached_property
    def declared(self) -> dict[str, EntryPoint]:
        """Returns the entry points of installed packages by name, without importing them."""
        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """Returns all names: those registered already, and those declared by packages not imported yet."""
        return list(dict.fromkeys([*self, *self.declared]))

    def load(self, name: str) -> None:
        """Imports the module that an installed package declares for `name`, if the name is not registered yet.

        Raises a ValueError if the import fails; does nothing if no package declares the name.
        """
        if name in self or name not in self.declared:
            return
        point = self.declared[name]
        try:
            point.load()
        except BUGS as error:
            raise ValueError(
                f"{self.described(point)} cannot be imported ({type(error).__name__}: {error}): repair or uninstall it"
            ) from error

    def find(self, name: str) -> T | None:
        """Returns the object of this name, importing its package if needed; None if the name is unknown.

        Raises a ValueError if that package cannot be imported or does not register the name.
        """
        self.load(name)
        if name not in self and name in self.declared:
            raise ValueError(self.registers_nothing(name))
        return self.get(name)

    def registers_nothing(self, name: str) -> str:
        return f"{self.described(self.declared[name])} registers no {name!r} when it is imported: repair it"

    def described(self, point: EntryPoint) -> str:
        return f"{point.value}, which {describe_package(point)} declares as {point.name!r} of {self.group},"


def describe_package(point: EntryPoint) -> str:
    """Returns the name and version of the installed package that declares an entry point; "a package" if unknown."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package"


class Entry(NamedTuple):
    """A registered algorithm: its class, its config class, and the description shown in lists of algorithms."""

    algorithm: type[Algorithm]
    config: type[AlgorithmConfig]
    about: str = ""  # one line
    tier: Tier = "contrib"

    @property
    def title(self) -> str:
        """Returns the name of the class that users train, e.g. "PPO" where the config class is PPOConfig."""
        return self.config.__name__.removesuffix("Config")


ALGORITHMS: Registry[Entry] = Registry("algorithms")


def register(
    name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig], about: str = "", tier: Tier = "contrib"
) -> None:
    """Registers an algorithm under a name that configs use; raises a ValueError if another algorithm has the name."""
    entry = Entry(algorithm, config, about, tier)
    if ALGORITHMS.get(name, entry) != entry:
        raise ValueError(
            f"the algorithm name {name!r} is taken by {ALGORITHMS[name].algorithm.__name__}: choose another"
        )
    ALGORITHMS[name] = entry
