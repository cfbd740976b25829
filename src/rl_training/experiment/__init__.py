"""Files of a run: run directories, checkpoints, logs, results and learning curves.

Names are looked up on first use, so that finding and comparing runs need not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl_training.experiment.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
    from rl_training.experiment.find_runs import runs
    from rl_training.experiment.recording import RecordVideo
    from rl_training.experiment.report import write_report
    from rl_training.experiment.run_directory import RunDirectory, find_checkpoint
    from rl_training.experiment.run_record import RunRecord

HOMES = {
    "Checkpoint": "checkpoint",
    "CheckpointError": "checkpoint",
    "RecordVideo": "recording",
    "RunDirectory": "run_directory",
    "RunRecord": "run_record",
    "find_checkpoint": "run_directory",
    "load_checkpoint": "checkpoint",
    "runs": "find_runs",
    "save_checkpoint": "checkpoint",
    "write_report": "report",
}

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "RecordVideo",
    "RunDirectory",
    "RunRecord",
    "find_checkpoint",
    "load_checkpoint",
    "runs",
    "save_checkpoint",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(f"rl_training.experiment.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
