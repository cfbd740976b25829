"""The maths: one file per method and its variants, which registers them. Agent classes (PPO ...) load lazily."""

from importlib import import_module
from pkgutil import iter_modules

from rl_training.core.registry import ALGORITHMS
from rl_training.core.renamed import find_renamed

for module in iter_modules(__path__, f"{__name__}."):
    import_module(module.name)

AGENTS = {entry.title: (name, entry) for name, entry in ALGORITHMS.items()}  # by the names of their managed classes
PARTS = {part.__name__: part for _, entry in AGENTS.values() for part in (entry.algorithm, entry.config)}
globals().update(PARTS)
__all__ = sorted([*AGENTS, *PARTS])
RENAMED = {"RLPDAlgorithm": "SACAlgorithm"}  # old public names, which go with 0.3 (docs/stability.md)


def __getattr__(name: str) -> object:
    if name in AGENTS:
        import rl_training.api

        return getattr(rl_training.api, name)
    return find_renamed(globals(), name, RENAMED)
