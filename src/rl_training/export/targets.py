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

    Files are only replaced if `overwrite`; the runner, which is the same for all policies, always is.
    """
    if path.suffix not in FORMATS.values() or path.name.endswith(".parity.npz"):
        raise ConfigError(f"path={str(path)!r} ends with {path.suffix!r}: use .onnx, .pt2, or .npz for NumPy")
    missing = [name for name in NEEDS.get(path.suffix, ()) if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"path={str(path)!r} needs {' and '.join(missing)}: pip install 'rl-training[export]', or write a .pt2 or .npz"
        )
    targets = Targets.of(path)
    there = next((file for file in targets[:3] if file is not None and file.exists()), None)
    if there is not None and (not overwrite or there.is_dir()):
        raise ConfigError(f"{there} exists: choose another name, delete it first, or allow it (overwrite, --overwrite)")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"path={str(path)!r} cannot be written, because of {folder}: choose another folder")
    return targets
