"""Statistics over seeds and tasks, and off-policy evaluation: what a log says about a policy that did not write it."""

from typing import TYPE_CHECKING

from rl_base.evaluation import (
    BanditLog,
    Diagnostics,
    EpisodeLog,
    Estimate,
    EstimatorRow,
    Improvement,
    Interval,
    Profile,
    Report,
    bootstrap_interval,
    compare_bandit,
    compare_episodes,
    cross_fit,
    cross_fit_values,
    diagnose_bandit,
    diagnose_episodes,
    direct_method,
    doubly_robust,
    evaluate_bandit,
    evaluate_episodes,
    fit_ridge,
    fit_values,
    fitted_value,
    holm,
    interval,
    inverse_propensity,
    iqm,
    optimality_gap,
    paired_difference,
    per_decision_importance_sampling,
    performance_profile,
    probability_of_improvement,
    ratio_moments,
    self_normalized,
    sequential_doubly_robust,
    step_sample_sizes,
    stratified_interval,
    switch_doubly_robust,
    trajectory_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision,
    worst_case_episodes,
    worst_case_interval,
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
