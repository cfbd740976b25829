"""What every result of this folder says of where it was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

from rl_training.experiment.run_directory import processor


def described() -> dict[str, object]:
    root = Path(__file__).parents[2]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
