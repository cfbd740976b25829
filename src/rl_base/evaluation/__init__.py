"""Statistics over seeds and tasks, and off-policy evaluation: what a log says about a policy that did not write it."""

from rl_base.evaluation.bandit import (
    direct_method,
    doubly_robust,
    inverse_propensity,
    self_normalized,
    switch_doubly_robust,
)
from rl_base.evaluation.diagnostics import (
    Diagnostics,
    diagnose_bandit,
    diagnose_episodes,
    ratio_moments,
    step_sample_sizes,
)
from rl_base.evaluation.estimate import Estimate, paired_difference
from rl_base.evaluation.fitted_values import cross_fit_values, fit_values
from rl_base.evaluation.intervals import Interval, interval
from rl_base.evaluation.logs import BanditLog, EpisodeLog
from rl_base.evaluation.missing import worst_case_episodes, worst_case_interval
from rl_base.evaluation.over_seeds import (
    Improvement,
    Profile,
    bootstrap_interval,
    holm,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)
from rl_base.evaluation.policy_value import compare_bandit, compare_episodes, evaluate_bandit, evaluate_episodes
from rl_base.evaluation.report import EstimatorRow, Report
from rl_base.evaluation.reward_model import cross_fit, fit_ridge
from rl_base.evaluation.sequential import (
    fitted_value,
    per_decision_importance_sampling,
    sequential_doubly_robust,
    trajectory_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision,
)

__all__ = [
    "BanditLog",
    "Diagnostics",
    "EpisodeLog",
    "Estimate",
    "EstimatorRow",
    "Improvement",
    "Interval",
    "Profile",
    "Report",
    "bootstrap_interval",
    "compare_bandit",
    "compare_episodes",
    "cross_fit",
    "cross_fit_values",
    "diagnose_bandit",
    "diagnose_episodes",
    "direct_method",
    "doubly_robust",
    "evaluate_bandit",
    "evaluate_episodes",
    "fit_ridge",
    "fit_values",
    "fitted_value",
    "holm",
    "interval",
    "inverse_propensity",
    "iqm",
    "optimality_gap",
    "paired_difference",
    "per_decision_importance_sampling",
    "performance_profile",
    "probability_of_improvement",
    "ratio_moments",
    "self_normalized",
    "sequential_doubly_robust",
    "step_sample_sizes",
    "stratified_interval",
    "switch_doubly_robust",
    "trajectory_importance_sampling",
    "weighted_importance_sampling",
    "weighted_per_decision",
    "worst_case_episodes",
    "worst_case_interval",
]
