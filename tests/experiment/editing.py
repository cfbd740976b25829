"""Changes checkpoints as a careless or a malicious hand would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rl_training.experiment.checkpoint import digest_of


def edit_manifest(path: Path, change: Callable[[dict], object], *, signed: bool = True) -> None:
    """Changes the manifest in place; `signed` writes the digest anew, as somebody who means harm would."""
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    if signed and "digest" in manifest:
        manifest["digest"] = digest_of(manifest)
    file.write_text(json.dumps(manifest))
