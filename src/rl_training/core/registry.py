"""What a run may name: things of the package, registered in this process, or declared by an installed package."""

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
    """Things by name. An entry point of an installed package names a module, whose import registers the name."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = f"rl_training.{group}"  # of entry points

    @cached_property
    def declared(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages by name; nothing is imported to find them."""
        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """All names, of what is imported and of what is not."""
        return list(dict.fromkeys([*self, *self.declared]))

    def load(self, name: str) -> None:
        """Imports the module that an installed package declares for a name which is not known."""
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
        """What has this name, imported if need be; None if nothing has."""
        self.load(name)
        if name not in self and name in self.declared:
            raise ValueError(self.registers_nothing(name))
        return self.get(name)

    def registers_nothing(self, name: str) -> str:
        return f"{self.described(self.declared[name])} registers no {name!r} when it is imported: repair it"

    def described(self, point: EntryPoint) -> str:
        return f"{point.value}, which {describe_package(point)} declares as {point.name!r} of {self.group},"


def describe_package(point: EntryPoint) -> str:
    """The installed package that an entry point is of, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package"


class Entry(NamedTuple):
    """An algorithm with its settings, and what is said of it where algorithms are listed."""

    algorithm: type[Algorithm]
    config: type[AlgorithmConfig]
    about: str = ""  # one line
    tier: Tier = "contrib"

    @property
    def title(self) -> str:
        """The name of its managed class."""
        return self.config.__name__.removesuffix("Config")


ALGORITHMS: Registry[Entry] = Registry("algorithms")


def register(
    name: str, algorithm: type[Algorithm], config: type[AlgorithmConfig], about: str = "", tier: Tier = "contrib"
) -> None:
    """Makes an algorithm known by a name; public names, the command line and the conformance suite follow from it."""
    entry = Entry(algorithm, config, about, tier)
    if ALGORITHMS.get(name, entry) != entry:
        raise ValueError(
            f"the algorithm name {name!r} is taken by {ALGORITHMS[name].algorithm.__name__}: choose another"
        )
    ALGORITHMS[name] = entry
