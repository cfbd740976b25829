"""Benchmarks: speed compared with other libraries, learning against gates and baselines, and a page of both."""

from rl_training.bench.learning_cells import LEARNING, LEARNING_SUITES, LearningCell
from rl_training.bench.speed_cells import SPEED, SPEED_SUITES, OptionCell, SpeedCell

__all__ = ["LEARNING", "LEARNING_SUITES", "SPEED", "SPEED_SUITES", "LearningCell", "OptionCell", "SpeedCell"]
