"""Statistics over seeds and tasks, and off-policy evaluation: what a log says about a policy that did not write it."""

from typing import TYPE_CHECKING

from rl_training.evaluation.bandit import (
    direct_method,
    doubly_robust,
    inverse_propensity,
    self_normalized,
    switch_doubly_robust,
)
from rl_training.evaluation.diagnostics import (
    Diagnostics,
    diagnose_bandit,
    diagnose_episodes,
    ratio_moments,
    step_sample_sizes,
)
from rl_training.evaluation.estimate import Estimate, paired_difference
from rl_training.evaluation.fitted_values import cross_fit_values, fit_values
from rl_training.evaluation.intervals import Interval, interval
from rl_training.evaluation.logs import BanditLog, EpisodeLog
from rl_training.evaluation.missing import worst_case_episodes, worst_case_interval
from rl_training.evaluation.over_seeds import (
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
from rl_training.evaluation.policy_value import compare_bandit, compare_episodes, evaluate_bandit, evaluate_episodes
from rl_training.evaluation.report import EstimatorRow, Report
from rl_training.evaluation.reward_model import cross_fit, fit_ridge
from rl_training.evaluation.sequential import (
    fitted_value,
    per_decision_importance_sampling,
    sequential_doubly_robust,
    trajectory_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision,
)

if TYPE_CHECKING:
    from rl_training.api.off_policy_evaluation import fitted_q, off_policy, rank
    from rl_training.data.reference_scores import normalized_score

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
    "fitted_q",
    "fitted_value",
    "holm",
    "interval",
    "inverse_propensity",
    "iqm",
    "normalized_score",
    "off_policy",
    "optimality_gap",
    "paired_difference",
    "per_decision_importance_sampling",
    "performance_profile",
    "probability_of_improvement",
    "rank",
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


def __getattr__(name: str) -> object:
    """Imports `fitted_q`, `off_policy`, `rank` or `normalized_score` on first use, as the rest needs numpy only.

    Raises AttributeError for other names.
    """
    if name in ("fitted_q", "off_policy", "rank"):
        from rl_training.api import off_policy_evaluation

        return getattr(off_policy_evaluation, name)
    if name == "normalized_score":
        from rl_training.data import reference_scores

        return reference_scores.normalized_score
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
