"""The trackers of a run as callbacks."""

from __future__ import annotations

import importlib.util
import logging
import re
from pathlib import Path

from rl_training.config.run_config import RunConfig, flatten
from rl_training.experiment.trackers.in_background import InBackground
from rl_training.experiment.trackers.mlflow import MLflow
from rl_training.experiment.trackers.tensorboard import TensorBoard
from rl_training.experiment.trackers.tracker import TrackedRun, Tracker
from rl_training.experiment.trackers.trackio import Trackio
from rl_training.experiment.trackers.wandb import WeightsAndBiases

log = logging.getLogger(__name__)
KINDS: tuple[type[Tracker], ...] = (TensorBoard, WeightsAndBiases, MLflow, Trackio)
TRACKERS = {kind.name: kind for kind in KINDS}


def begin_tracking(config: RunConfig, folder: Path, timesteps: int) -> list[InBackground]:
    """Starts the trackers that `tracking.loggers` names, and TensorBoard if it is installed; returns them as callbacks.

    A tracker whose package is missing is left out, with a logged warning that says how to install it.
    """
    run = described(config, folder, timesteps)
    begun = []
    for name in dict.fromkeys(("tensorboard", *config.tracking.loggers)):
        kind = TRACKERS[name]
        if importlib.util.find_spec(kind.package) is not None:
            begun.append(InBackground(kind(), run))
        elif name in config.tracking.loggers:
            log.warning(
                f"tracking.loggers names {name!r}, whose package is not installed, so this run is not tracked there: "
                f"pip install 'rl-training[{name}]', and resume the run or start it again"
            )
    for tracker in begun:
        tracker.wait_for_start()
    return begun


def described(config: RunConfig, folder: Path, timesteps: int) -> TrackedRun:
    """Returns what trackers are told of a run, whose seeds share a group if they lie in one folder."""
    absolute = folder.absolute()
    one_of_several = re.fullmatch(r"seed\d+", absolute.name)
    group = absolute.parent.name if one_of_several else None
    settings = {path: plain(value) for path, value in flatten(config.to_mapping()).items()}
    name = f"{group}-{absolute.name}" if group else absolute.name
    return TrackedRun(absolute, name, group, config.tracking.project, settings, timesteps)


def plain(value: object) -> bool | int | float | str:
    """Returns a setting as trackers take it: numbers, flags and text as they are, anything else as text."""
    return value if isinstance(value, bool | int | float | str) else str(value)
