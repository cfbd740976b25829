"""Search for better settings: trials are ordinary runs, drawn by Optuna, executed by processes or by Ray."""

from rl_training.tuning.outcome import TuneResult
from rl_training.tuning.study import tune

__all__ = ["TuneResult", "tune"]
