"""Overrides: changes of one setting in a config's data, written as `section.field=value` by `--set`."""

from __future__ import annotations

import re

import yaml

from rl_base.strict_yaml import parse_yaml
from rl_training.config.names_of_others import ALIASES
from rl_training.core.arguments import ConfigError


def apply_override(values: dict, assignment: str) -> dict:
    """Returns a copy of config data with one setting changed; `assignment` is `section.field=value`, value in YAML.

    Drops other names of the same setting. Raises ConfigError if the text has another form, its value is not valid YAML,
    or its path leads into a value without fields or to a list entry that does not exist.
    """
    path, separator, text = assignment.partition("=") if isinstance(assignment, str) else ("", "", "")
    keys = split_path(path)
    if not separator or (len(keys) < 2 and keys != ("phases",)):
        raise ConfigError(
            f"--set {assignment!r} must look like SECTION.FIELD=VALUE, for example experience.n_steps=128"
        )
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"--set {assignment!r}: the value is not valid YAML: {' '.join(str(error).split())}"
        ) from error
    ours = ALIASES.get(keys, keys)
    for other in (ours, *(alias for alias, home in ALIASES.items() if home == ours)):  # the last to be said holds
        section = values.get(other[0])
        if isinstance(section, dict) and other != keys:
            values = values | {other[0]: {name: setting for name, setting in section.items() if name != other[-1]}}

    def changed(node: object, depth: int) -> object:
        if depth == len(keys):
            return value
        key, place = keys[depth], ".".join(keys[:depth])
        if place == "phases" and not node:
            raise ConfigError(
                f"--set {assignment!r}: there are no phases, set them as a whole, phases='[{{env_steps: 1000}}]'"
            )
        if isinstance(node, list):
            if key not in map(str, range(len(node))):
                last = f" to {place}[{len(node) - 1}]" if len(node) > 1 else ""
                raise ConfigError(
                    f"--set {assignment!r}: {place} is a list of {len(node)}, use {place}[0]{last}; it has no {key!r}"
                )
            return [changed(entry, depth + 1) if key == str(i) else entry for i, entry in enumerate(node)]
        fields = {} if node is None else node
        if not isinstance(fields, dict):
            raise ConfigError(f"--set {assignment!r}: {place}={node!r} has no fields of its own, set it as a whole")
        return fields | {key: changed(fields.get(key), depth + 1)}

    return changed(values, 0)  # pyrefly: ignore (a mapping, as before)


def split_path(path: str) -> tuple[str, ...]:
    """Splits the path of a setting into its keys: `phases[0].env.id` becomes ("phases", "0", "env", "id")."""
    return tuple(re.sub(r"\[([^\]]*)\]", r".\1", path.strip()).split("."))


def our_path(path: str) -> str:
    """Returns the path of a setting under our section and name: `algorithm.n_steps` becomes `experience.n_steps`.

    A path that is no alias is returned as it is.
    """
    keys = split_path(path)
    return ".".join(ALIASES.get(keys, keys))
