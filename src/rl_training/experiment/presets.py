"""Starter configs that ship with the package: `ppo/cartpole` is `assets/configs/ppo/cartpole.yaml`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from rl_training.experiment.aliases import apply_override
from rl_training.experiment.config_file import load_yaml
from rl_training.experiment.parsing import ConfigError, nearest

ROOT = Path(__file__).parent.parent / "assets" / "configs"


def list_presets() -> list[str]:
    """The names of the packaged configs, such as `ppo/cartpole`."""
    return sorted(str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.rglob("*.yaml"))


def preset_path(name: str) -> Path:
    """Returns the file of a preset, or says which name is nearest."""
    if name not in list_presets():
        raise ConfigError(f"{name!r} is not a preset: {nearest(name, list_presets())}")
    return ROOT / f"{name}.yaml"


def load_config_values(name_or_path: str, overrides: Sequence[str] = ()) -> dict:
    """Reads a preset by name, or a YAML file by path; `overrides` are `section.field=value`."""
    path = Path(name_or_path)
    is_file = path.suffix in (".yaml", ".yml") or path.is_file()
    return reduce(apply_override, overrides, load_yaml(path if is_file else preset_path(name_or_path)))


def copy_preset(name: str, target: Path) -> None:
    """Writes a preset to a file of the user's; never overwrites."""
    source = preset_path(name)
    if target.exists():
        raise ConfigError(f"{target} exists: choose another name")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written ({error.strerror}): choose another place") from error
