"""Typed settings of a run: sections, parsing, presets, names of other libraries, and which code a file may run."""

from rl_training.config.keywords import config_from_keywords
from rl_training.config.presets import copy_preset, list_presets, load_config_values, preset_path
from rl_training.config.registry import register_algorithm
from rl_training.config.run_config import RunConfig
from rl_training.core.arguments import ConfigError

__all__ = [
    "ConfigError",
    "RunConfig",
    "config_from_keywords",
    "copy_preset",
    "list_presets",
    "load_config_values",
    "preset_path",
    "register_algorithm",
]
