"""Config files: YAML, read so that a mistake is reported with its place."""

from __future__ import annotations

import math
from pathlib import Path

import yaml

from rl_training.config.sections import NEEDED
from rl_training.core.arguments import ConfigError
from rl_training.strict_yaml import parse_yaml


def load_yaml(path: Path) -> dict:
    """Reads a config file; a syntax error is reported with its place."""
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file ({error})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} does not hold a config: {NEEDED}")
    return values


def one_line(value: object) -> str:
    """A value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=math.inf).splitlines()[0]
