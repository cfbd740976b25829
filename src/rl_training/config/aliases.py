"""Other names of settings, accepted wherever ours are: of other libraries, and of places where a setting once stood."""

from __future__ import annotations

import re

import yaml

from rl_training.config.parsing import as_float, field_names
from rl_training.config.registry import ALGORITHMS, experience_of
from rl_training.config.sb3_values import in_our_form
from rl_training.config.sections import TrainingConfig
from rl_training.core import AlgorithmConfig
from rl_training.core.arguments import ConfigError
from rl_training.experience import ReplaySettings, RolloutSettings
from rl_training.strict_yaml import parse_yaml

Place = tuple[str, ...]  # section and field
ONCE_IN_ALGORITHM = sorted({*field_names(RolloutSettings), *field_names(ReplaySettings)} - {"store"})
ALIASES: dict[Place, Place] = {
    ("algorithm", "buffer_capacity"): ("experience", "buffer_size"),
    ("algorithm", "train_frequency"): ("experience", "train_freq"),
    ("experience", "buffer_capacity"): ("experience", "buffer_size"),
    ("experience", "train_frequency"): ("experience", "train_freq"),
    ("algorithm", "gradient_updates_per_step"): ("algorithm", "gradient_steps"),
    ("algorithm", "offline_pretrain_updates"): ("training", "total_updates"),
    **{("algorithm", name): ("experience", name) for name in ONCE_IN_ALGORITHM},
}


def by_our_names(values: dict) -> dict:
    """Config data with every alias replaced by our name."""
    result = {key: dict(section) if isinstance(section, dict) else section for key, section in values.items()}
    if isinstance(result.get("algorithm"), dict):
        result["algorithm"] = in_our_form(result["algorithm"])
    taken: dict[Place, Place] = {}  # what stood for our names
    for (section, alias), (home, name) in ALIASES.items():
        if not isinstance(result.get(section), dict) or alias not in result[section]:
            continue
        if not isinstance(result.get(home) or {}, dict):
            raise ConfigError(f"{home}={result[home]!r} must be a mapping of settings")
        if home == "experience" != section and name not in experience_fields(result):
            continue  # which is refused by the name it was given
        result[home] = result.get(home) or {}
        if name in result[home]:
            both = (taken[home, name], (section, alias)) if (home, name) in taken else ((section, alias), (home, name))
            raise ConfigError(f"{' and '.join(map('.'.join, both))} are the same setting: give one of them")
        result[home][name], taken[home, name] = result[section].pop(alias), (section, alias)
        if name == "total_updates":  # pretraining: environment steps follow, as many as usual
            result[home].setdefault("total_timesteps", TrainingConfig.total_timesteps)
    return result


def experience_fields(values: dict) -> list[str]:
    """The settings of what the config's algorithm learns from."""
    name, section = values["algorithm"].get("name"), values.get("experience") or {}
    return field_names(experience_of(name, section.get("store"))) if ALGORITHMS.find(str(name)) else []


def without_absent(kind: type[AlgorithmConfig], settings: dict) -> dict:
    """An algorithm's settings without those that it does not have and older files hold; with an effect, they are refused."""
    for field in kind.absent.keys() & settings.keys():
        why, held, same_as = kind.absent[field]
        value = settings[field]
        idle = [held, settings.get(same_as, getattr(kind, same_as)) if same_as else held]
        number = as_float(value)
        if value not in idle and (number is None or number not in idle):
            name = kind.__name__.removesuffix("Config")
            raise ConfigError(f"algorithm.{field}={value!r} has no effect in {name}, because {why}: drop it")
    return {field: value for field, value in settings.items() if field not in kind.absent}


def apply_override(values: dict, assignment: str) -> dict:
    """Applies one `section.field=value` (the value is YAML) to plain config data and returns a new mapping."""
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
    """The keys that lead to a setting: of `section.field`, or of `phases[0].field`."""
    return tuple(re.sub(r"\[([^\]]*)\]", r".\1", path.strip()).split("."))


def our_path(path: str) -> str:
    """The path of a setting by our name and in our place."""
    keys = split_path(path)
    return ".".join(ALIASES.get(keys, keys))
