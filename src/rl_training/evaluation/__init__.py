"""Statistics over seeds and tasks."""

from rl_training.evaluation.statistics import bootstrap_interval, iqm

__all__ = ["bootstrap_interval", "iqm"]
