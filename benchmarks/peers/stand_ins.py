"""Empty modules in place of packages that a peer imports but does not need to train: drawing, logging, configuration."""

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import MagicMock


class StandIn(ModuleType):
    """A module whose every attribute can be called, subclassed and used as a decorator, and does nothing."""

    def __getattr__(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class StandIns(MetaPathFinder, Loader):
    """An importer of stand-ins for some packages and all their modules."""

    def __init__(self, packages: list[str]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def stand_in_for(*packages: str) -> list[str]:
    """Lets those of the packages that are not installed be imported as stand-ins; returns their names."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    sys.meta_path.append(StandIns(missing))
    return missing
