"""Names of exported files: formats, the files beside a policy, and refusals before anything is written."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rl_training.core.arguments import ConfigError

FORMATS = {"onnx": ".onnx", "pt2": ".pt2", "numpy": ".npz"}
NEEDS = {".onnx": ("onnx", "onnxscript", "onnxruntime")}  # packages of the extra `export`
RUNNER = "run_policy.py"
RUNNER_BEGINS = b'"""A policy in a file, run with NumPy and, for .onnx, onnxruntime'


class Targets(NamedTuple):
    """The files of an exported policy; a .pt2 has no runner, because it needs torch anyway."""

    policy: Path
    parity: Path
    card: Path
    runner: Path | None

    @classmethod
    def of(cls, path: Path) -> Targets:
        runner = None if path.suffix == FORMATS["pt2"] else path.with_name(RUNNER)
        return cls(path, path.with_name(f"{path.name}.parity.npz"), path.with_name(f"{path.name}.md"), runner)


def check_target(path: Path, *, overwrite: bool) -> Targets:
    """Returns the files that an export to `path` writes; raises ConfigError if it cannot or must not write them.

    Files are only replaced if `overwrite`, and folders never. A runner that an export wrote always is, because it is the
    same for all policies.
    """
    if path.suffix not in FORMATS.values() or path.name.endswith(".parity.npz"):
        raise ConfigError(f"path={str(path)!r} ends with {path.suffix!r}: use .onnx, .pt2, or .npz for NumPy")
    missing = [name for name in NEEDS.get(path.suffix, ()) if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"path={str(path)!r} needs {' and '.join(missing)}: pip install 'rl-training[export]', or write a .pt2 or .npz"
        )
    targets = Targets.of(path)
    there = [file for file in targets if file is not None and file.exists()]
    folder = next((file for file in there if file.is_dir()), None)
    if folder is not None:
        raise ConfigError(f"{folder} is a folder: choose another name or remove it")
    there = next((file for file in there if file != targets.runner or not is_runner(file)), None)
    if there is not None and not overwrite:
        raise ConfigError(f"{there} exists: choose another name, delete it first, or allow it (overwrite, --overwrite)")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"path={str(path)!r} cannot be written, because of {folder}: choose another folder")
    return targets


def is_runner(file: Path) -> bool:
    """Returns True if a file begins as the runner does, in any version."""
    with file.open("rb") as opened:
        return opened.read(len(RUNNER_BEGINS)) == RUNNER_BEGINS
