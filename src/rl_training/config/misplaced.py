"""Settings that an algorithm's config object does not have: where each belongs, or which one was meant."""

from __future__ import annotations

from collections.abc import Mapping

from rl_training.config.aliases import ALIASES
from rl_training.config.keywords import keyword_homes
from rl_training.config.parsing import field_names, nearest, shortened
from rl_training.config.registry import ALGORITHMS, whose
from rl_training.config.sections import SECTIONS
from rl_training.core import AlgorithmConfig
from rl_training.core.arguments import CallError


def misplaced(
    kind: type[AlgorithmConfig], by_position: tuple[object, ...], settings: Mapping[str, object]
) -> CallError:
    """What to raise where a config is called with settings that it does not have, or without their names."""
    if by_position:
        value = shortened(by_position[0])
        return CallError(f"{kind.__name__}({value}) does not say which setting it is: name it, e.g. gamma=0.99")
    field, value = next((name, value) for name, value in settings.items() if name not in field_names(kind))
    name = next((name for name, entry in ALGORITHMS.items() if entry.config is kind), None)
    advice = nearest(field, field_names(kind)) if name is None else place_of(field, name, shortened(value))
    return CallError(f"{kind.__name__} has no field {field!r}: {advice}")


def place_of(field: str, name: str, value: str) -> str:
    """Where a setting of an algorithm belongs that is no field of its config, or what it is called."""
    entry = ALGORITHMS[name]
    if field in entry.config.absent:
        return f"it has no effect, because {entry.config.absent[field].why}; leave it out"
    home, ours = ALIASES.get(("algorithm", field), (keyword_homes(name).get(field), field))
    if home == "algorithm":
        return f"here it is called {ours}"
    call = f"{entry.title}(env, {entry.config.__name__}(...), "
    if home is not None and ours in keyword_homes(name):
        return f"{ours} is a setting of {home}, give it beside the config, {call}{ours}={value})"
    if field in SECTIONS:
        return f"it is a section of its own, give it beside the config, {call}{field}={value})"
    return whose(field, name, "algorithm")
