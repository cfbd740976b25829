"""Files of a run: run directories, checkpoints, logs, results and learning curves."""

from rl_training.experiment.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from rl_training.experiment.recording import RecordVideo
from rl_training.experiment.run_directory import RunDirectory, find_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "RecordVideo",
    "RunDirectory",
    "find_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
]
