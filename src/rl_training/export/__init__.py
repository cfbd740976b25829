"""Export: a policy as a file that runs without this library, with what shows that it computes the same."""

from rl_training.export.card import About
from rl_training.export.export_policy import Exported, check_exported, export_policy
from rl_training.export.targets import FORMATS, check_target

__all__ = ["FORMATS", "About", "Exported", "check_exported", "check_target", "export_policy"]
