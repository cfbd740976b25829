"""Requirements of rl-training: in a checkout, the other distributions of this repository are taken from their folders."""

from __future__ import annotations

import os
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDERS = {"rl-training-base": "src/rl_base", "sage-routing": "src/sage", "sage-routing-sim": "src/sage/sim"}
RELEASE = "RL_TRAINING_RELEASE"  # if it is set, all are named by version, as an index needs them


class Requirements(MetadataHookInterface):
    """The requirements of pyproject.toml, completed so that `pip install ".[sage]"` works where no index has the others."""

    def update(self, metadata: dict) -> None:
        metadata["dependencies"] = [self.completed(needed) for needed in self.config["dependencies"]]
        metadata["optional-dependencies"] = {
            extra: [self.completed(needed) for needed in listed]
            for extra, listed in self.config["optional-dependencies"].items()
        }

    def completed(self, needed: str) -> str:
        with_extras = needed.split("==")[0]
        folder = Path(self.root, FOLDERS.get(with_extras.split("[")[0], "-"))
        if RELEASE in os.environ or not (folder / "pyproject.toml").is_file():
            return needed
        return f"{with_extras} @ {folder.as_uri()}"
