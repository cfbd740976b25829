"""Files of a run: run directories, checkpoints, logs, results and learning curves.

Names are looked up on first use, so that finding and comparing runs need not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl_training.experiment.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
    from rl_training.experiment.find_runs import runs
    from rl_training.experiment.recording import RecordVideo
    from rl_training.experiment.report.compare_runs import RunComparison, compare_runs
    from rl_training.experiment.report.page import write_report
    from rl_training.experiment.run_directory import RunDirectory, find_checkpoint
    from rl_training.experiment.run_record import RunRecord
    from rl_training.experiment.run_removal import remove_runs

HOMES = {
    "Checkpoint": "checkpoint",
    "CheckpointError": "checkpoint",
    "RecordVideo": "recording",
    "RunComparison": "report.compare_runs",
    "RunDirectory": "run_directory",
    "RunRecord": "run_record",
    "compare_runs": "report.compare_runs",
    "find_checkpoint": "run_directory",
    "load_checkpoint": "checkpoint",
    "remove_runs": "run_removal",
    "runs": "find_runs",
    "save_checkpoint": "checkpoint",
    "write_report": "report.page",
}

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "RecordVideo",
    "RunComparison",
    "RunDirectory",
    "RunRecord",
    "compare_runs",
    "find_checkpoint",
    "load_checkpoint",
    "remove_runs",
    "runs",
    "save_checkpoint",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(f"rl_training.experiment.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
