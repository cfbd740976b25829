"""The command `export`: a policy as a file that runs without this library."""

from __future__ import annotations

import argparse
from pathlib import Path

from rl_training.api import load
from rl_training.api.exporting import export_agent, file_of, groups_of
from rl_training.config import ConfigError
from rl_training.config.parsing import parse_path
from rl_training.export import FORMATS, Exported, check_exported, check_target


def export(options: argparse.Namespace) -> int:
    source = parse_path(options.path, "path")
    if not source.exists():
        raise ConfigError(f"{source} does not exist: give a run directory, a checkpoint or a saved model")
    if options.out is None and not (source / "config.yaml").exists():
        raise ConfigError(f"{source} is not a run directory: give one, or say where to write, --out FOLDER")
    folder = source / "export" if options.out is None else parse_path(options.out, "--out")
    name = f"policy{FORMATS[options.format]}"
    check_target(folder / name, overwrite=options.overwrite)  # before the run is opened
    agent = load(options.path, device=options.device, trust=options.trust)
    targets = {group: folder / file_of(name, group) for group in groups_of(agent) or (None,)}
    for target in targets.values():
        check_target(target, overwrite=options.overwrite)
    equal = [
        show(export_agent(agent, target, options.overwrite, source, group), check=options.check)
        for group, target in targets.items()
    ]
    return 0 if all(equal) else 1


def show(written: Exported, *, check: bool) -> bool:
    """Prints the files of an exported policy; returns False if `check` found that it computes other numbers."""
    for file in (written.policy, written.parity, written.card, written.runner):
        if file is not None:
            print(f"wrote {shown(file)}")
    print(f"largest difference over {written.observations:,} observations: {written.largest_difference:.1e}")
    if not check:
        return True
    found = check_exported(written.policy)
    print(f"check: {found.text}")
    return found.equal


def shown(file: Path) -> Path:
    """Returns a path as short as it can be written from the current folder."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
