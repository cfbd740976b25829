"""Keyword arguments to config data: each belongs to the section that has a field of that name, or is a section."""

from __future__ import annotations

import dataclasses

from rl_training.experiment.config import ALIASES, SECTIONS, RunConfig
from rl_training.experiment.parsing import ConfigError
from rl_training.experiment.registry import ALGORITHMS, whose


def config_from_keywords(name: str, env_id: str, keywords: dict[str, object]) -> RunConfig:
    """Builds the config of an algorithm on an environment from keyword arguments."""
    sections = sort_keywords(name, keywords)
    values = sections | {
        "algorithm": {"name": name} | sections.get("algorithm", {}),
        "env": {"id": env_id} | sections.get("env", {}),
    }
    return RunConfig.from_mapping(values)


def sort_keywords(name: str, keywords: dict[str, object]) -> dict[str, dict]:
    """Keyword arguments by section; what is given twice is refused, as is what no section knows."""
    homes = dict.fromkeys(ALGORITHMS[name].fields, "algorithm")
    homes |= {alias: section for section, alias in ALIASES}
    for section in ("env", "training"):
        homes |= {f.name: section for f in dataclasses.fields(SECTIONS[section]) if f.name != "id"}  # pyrefly: ignore
    values: dict[str, dict] = {"training": {}}
    for key, value in keywords.items():
        if key in SECTIONS:
            if not isinstance(value, dict):
                raise ConfigError(f"{key}={value!r} must be a mapping of settings, e.g. {key}={{...}}")
            values[key] = joined(key, values.get(key, {}), value)
        elif key in homes:
            section = homes[key]
            values[section] = joined(section, values.get(section, {}), {key: value})
        else:
            raise ConfigError(f"{key}={value!r} is not a setting of {name}: {whose(key, name, [*homes, *SECTIONS])}")
    return values


def joined(section: str, some: dict, others: dict) -> dict:
    """The settings of one section from two sources."""
    for key in others:
        if key in some:
            raise ConfigError(
                f"{section}.{key} is given twice, as {some[key]!r} and {others[key]!r} (directly and in {section}={{...}}): "
                "give it once"
            )
    return some | others
