"""Presets and config files: YAML as plain data."""

from __future__ import annotations

import difflib
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import reduce
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import yaml

from rl_base.strict_yaml import parse_yaml
from rl_training.config.overrides import apply_override
from rl_training.config.sections import NEEDED
from rl_training.config.translation import from_zoo, is_zoo_file
from rl_training.core.arguments import ConfigError, expand_home
from rl_training.core.registry import BUGS, describe_package

GROUP = "rl_training.presets"  # of entry points, whose names nothing uses
ROOT = Path(__file__).parent.parent / "assets" / "configs"
# Entries of RL Baselines3 Zoo with `use_sde`, by algorithm: they become presets when that exists here.
WITH_SDE = {
    "a2c": ("BipedalWalker-v3", "LunarLanderContinuous-v3"),
    "sac": ("BipedalWalker-v3", "MountainCarContinuous-v0"),
    "tqc": ("BipedalWalker-v3", "MountainCarContinuous-v0"),
    "trpo": ("MountainCarContinuous-v0",),
}


def folders() -> Iterator[Path]:
    """Yields the folders with presets: this package's own, then those of installed packages that declare some."""
    yield ROOT
    for point in entry_points(group=GROUP):
        yield from (folder for folder in folders_of(point) if folder.is_dir())


def folders_of(point: EntryPoint) -> list[Path]:
    """Returns the paths of the folders `presets` in the package that an entry point names, which may not exist.

    Returns an empty list if the package cannot be found.
    """
    try:
        found = find_spec(point.value)  # which imports no package, but the one around it
    except BUGS:
        return []
    places = found.submodule_search_locations if found is not None else None
    return [Path(place) / "presets" for place in places or ()]


def broken_packages() -> list[str]:
    """Returns one sentence for each installed package whose declared presets cannot be found."""
    problems = []
    for point in entry_points(group=GROUP):
        package, found = describe_package(point), folders_of(point)
        if not found:
            problems.append(f"{point.value!r}, where {package} declares presets, is no package: repair or uninstall it")
        elif not any(folder.is_dir() for folder in found):
            problems.append(f"{found[0]}, where {package} declares presets, does not exist: repair or uninstall it")
    return problems


def presets_in(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.yaml")}


def list_presets() -> list[str]:
    """Returns the sorted names of all presets, such as `ppo/cartpole`, including those of installed packages."""
    return sorted({name for folder in folders() for name in presets_in(folder)})


def preset_path(name: str) -> Path:
    """Returns the YAML file of the preset `name`; raises ConfigError with the nearest name if there is none."""
    found = (presets_in(folder).get(name) for folder in folders())
    path = next((path for path in found if path is not None), None)
    if path is None:
        broken = "".join(f"; {problem}" for problem in broken_packages())
        raise ConfigError(f"{name!r} is not a preset: {nearest_preset(name, list_presets())}{broken}")
    return path


def nearest_preset(name: str, names: list[str]) -> str:
    """Returns advice on an unknown preset: presets of its algorithm, one to copy, or the most similar of `names`."""
    family = [known for known in names if known.startswith(f"{name.lower().rstrip('/')}/")]
    if family:
        return f"choose from {', '.join(family)}"
    method, _, task = name.lower().partition("/")
    env_id = registered(task)
    others = [known for known in names if known.startswith(f"{method}/")]
    if env_id and others and not difflib.get_close_matches(name.lower(), others, n=1, cutoff=0.9):
        waits = env_id in WITH_SDE.get(method, ())
        return (
            f"{'RL Baselines3 Zoo uses gSDE (use_sde) there, which is not available yet; ' if waits else ''}"
            f"copy one of {method}, `rl-training presets copy {like(env_id, others)} my.yaml`, and set env.id: {env_id} in it "
            f"(or train {like(env_id, others)} --set env.id={env_id})"
        )
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else "`rl-training presets list` shows all of them"


def registered(task: str) -> str | None:
    """Returns the newest gymnasium id for a preset's task name, such as Walker2d-v5 for walker2d; None if none fits."""
    plain = re.sub(r"[^a-z0-9]", "", task)
    alike = [known for known in gym.registry if re.sub(r"[^a-z0-9]", "", known.rpartition("-v")[0].lower()) == plain]
    return max(alike, key=lambda known: gym.registry[known].version or 0, default=None)


def like(env_id: str, presets: list[str]) -> str:
    """Returns the preset among `presets` to copy for the environment `env_id`: one of the same family, else the first.

    A family is one module of gymnasium, and its preset of Hopper comes first. Skips presets with data or with arguments
    for their environment, because they fit that environment alone.
    """
    presets = sorted(presets, key=lambda name: not name.endswith("/hopper"))
    values = {name: load_yaml(preset_path(name)) for name in presets}
    plain = {name: found.get("env", {}) for name, found in values.items() if "data" not in found}
    ids = {name: env.get("id", "") for name, env in plain.items() if not env.get("kwargs")}
    alike = (name for name, known in ids.items() if family_of(known) == family_of(env_id))
    return next(alike, next(iter(ids), presets[0]))


def family_of(env_id: str) -> str:
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else ""
    return str(entry).rpartition(":")[0].rpartition(".")[0]


def load_config_values(name_or_path: str, overrides: Sequence[str] = ()) -> dict:
    """Returns the config data of a preset (by name) or a YAML file (by path), with `overrides` applied in their order.

    An override is text such as "training.seed=1". Files of RL Baselines3 Zoo are translated. Raises ConfigError if the
    preset does not exist, the file cannot be read, or an override cannot be applied.
    """
    path = expand_home(name_or_path)
    is_file = path.suffix in (".yaml", ".yml") or path.is_file()
    values = load_yaml(path if is_file else preset_path(name_or_path))
    return reduce(apply_override, overrides, from_zoo(values, path) if is_zoo_file(values) else values)


def copy_preset(name: str, target: Path) -> None:
    """Copies the YAML file of the preset `name` to `target`, and creates the folders above it.

    Raises ConfigError if `target` exists already or cannot be written, or if there is no such preset.
    """
    source = preset_path(name)
    if target.exists():
        raise ConfigError(f"{target} exists: choose another name")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written ({error.strerror}): choose another place") from error


def load_yaml(path: Path) -> dict:
    """Returns the mapping that a YAML file holds.

    Raises ConfigError if the file cannot be read, is not valid YAML (with the place of the error), or holds no mapping.
    """
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file ({error})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} does not hold a config: {NEEDED}")
    return values


def one_line(value: object) -> str:
    """Returns a value as YAML text on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=math.inf).splitlines()[0]
