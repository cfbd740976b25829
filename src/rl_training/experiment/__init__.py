"""Configs, presets, run directories, checkpoints and logs: everything around the loop that touches files."""

from rl_training.experiment.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from rl_training.experiment.config import RunConfig
from rl_training.experiment.keywords import config_from_keywords
from rl_training.experiment.parsing import ConfigError
from rl_training.experiment.presets import copy_preset, list_presets, load_config_values, preset_path
from rl_training.experiment.registry import register_algorithm
from rl_training.experiment.run_directory import RunDirectory, find_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ConfigError",
    "RunConfig",
    "RunDirectory",
    "config_from_keywords",
    "copy_preset",
    "find_checkpoint",
    "list_presets",
    "load_checkpoint",
    "load_config_values",
    "preset_path",
    "register_algorithm",
    "save_checkpoint",
]
