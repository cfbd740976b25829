"""The commands about configs: `presets` and `config`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rl_training.config import ConfigError, RunConfig, copy_preset, list_presets, load_config_values, preset_path
from rl_training.config.presets import broken_packages, load_yaml, one_line
from rl_training.config.run_config import diff
from rl_training.core.registry import ALGORITHMS
from rl_training.experiment import RunDirectory


def presets(options: argparse.Namespace) -> int:
    if options.action == "show":
        print(preset_path(options.name).read_text(encoding="utf-8"), end="")
    elif options.action == "copy":
        copy_preset(options.name, Path(options.target))
        print(f"wrote {options.target}")
    else:
        for name in list_presets():
            print(preset_row(name))
        for problem in broken_packages():
            print(problem, file=sys.stderr)
    return 0


def preset_row(name: str) -> str:
    """Returns the line of `presets list` for a preset: name, tier of its algorithm, measured result, source.

    If the preset is damaged, the line has the error.
    """
    try:
        values = load_yaml(preset_path(name))
    except ConfigError as error:  # of an installed package: the others can still be listed
        return f"{name:32} {error}"
    algorithm, about = values.get("algorithm"), values.get("about") or {}
    named = algorithm.get("name") if isinstance(algorithm, dict) else None
    if not isinstance(named, str) or not isinstance(about, dict):
        return f"{name:32} {preset_path(name)} names no algorithm: repair or uninstall it"
    result, entry = about.get("result", "none"), ALGORITHMS.get(named)  # what a package declares is not imported for it
    tier = entry.tier if entry else "outside" if named in ALGORITHMS.declared else "unknown"
    mark, result = ("-", "not measured") if result == "none" else ("zoo", result)
    return f"{name:32} {tier:8} {mark:4} {result}  [{about.get('source', 'no source')}]"


def config(options: argparse.Namespace) -> int:
    rows = diff(*(read_config(path) for path in (options.a, options.b)))
    for path, left, right in rows:
        print(f"{path}: {one_line(left)} -> {one_line(right)}")
    if not rows:
        print("no differences")
    return 0


def read_config(name: str) -> RunConfig:
    if Path(name).is_dir():
        return RunDirectory.open(Path(name)).config()
    return RunConfig.from_mapping(load_config_values(name))
