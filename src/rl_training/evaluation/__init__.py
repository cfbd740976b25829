"""Statistics over seeds and tasks, and off-policy evaluation: what a log says about a policy that did not write it."""

from rl_training.evaluation.bandit import (
    direct_method,
    doubly_robust,
    inverse_propensity,
    self_normalized,
    switch_doubly_robust,
)
from rl_training.evaluation.diagnostics import Diagnostics, diagnose_bandit, diagnose_episodes
from rl_training.evaluation.estimate import Estimate, paired_difference
from rl_training.evaluation.intervals import Interval, interval
from rl_training.evaluation.logs import BanditLog, EpisodeLog
from rl_training.evaluation.policy_value import compare_bandit, compare_episodes, evaluate_bandit, evaluate_episodes
from rl_training.evaluation.report import EstimatorRow, Report
from rl_training.evaluation.reward_model import cross_fit, fit_ridge
from rl_training.evaluation.sequential import (
    per_decision_importance_sampling,
    sequential_doubly_robust,
    trajectory_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision,
)
from rl_training.evaluation.statistics import bootstrap_interval, iqm

__all__ = [
    "BanditLog",
    "Diagnostics",
    "EpisodeLog",
    "Estimate",
    "EstimatorRow",
    "Interval",
    "Report",
    "bootstrap_interval",
    "compare_bandit",
    "compare_episodes",
    "cross_fit",
    "diagnose_bandit",
    "diagnose_episodes",
    "direct_method",
    "doubly_robust",
    "evaluate_bandit",
    "evaluate_episodes",
    "fit_ridge",
    "interval",
    "inverse_propensity",
    "iqm",
    "paired_difference",
    "per_decision_importance_sampling",
    "self_normalized",
    "sequential_doubly_robust",
    "switch_doubly_robust",
    "trajectory_importance_sampling",
    "weighted_importance_sampling",
    "weighted_per_decision",
]
