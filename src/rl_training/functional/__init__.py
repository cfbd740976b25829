"""Pure functions on tensors, each with a known-answer test."""

from rl_training.functional.conjugate_gradient import conjugate_gradient
from rl_training.functional.discrepancy import squared_mmd
from rl_training.functional.distributions import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    Distribution,
    MultiCategorical,
    SquashedGaussian,
    detach,
    kl_divergence,
)
from rl_training.functional.losses import (
    approx_kl,
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    normalize_advantage,
    weighted_mean,
    weighted_means,
)
from rl_training.functional.moments import RunningMoments, merge_moments
from rl_training.functional.n_step import ENDED, TERMINATED, NStepReturn, n_step_return
from rl_training.functional.returns import VTrace, discounted_returns, gae, lambda_returns, reverse_scan, v_trace
from rl_training.functional.value_losses import (
    advantage_weights,
    conservative_gap,
    expectile_loss,
    importance_weights,
    project_distribution,
    quantile_huber,
    regression_loss,
    sampled_conservative_gap,
    truncated_mixture,
)

__all__ = [
    "ENDED",
    "TERMINATED",
    "Bernoulli",
    "Categorical",
    "DiagGaussian",
    "Distribution",
    "MultiCategorical",
    "NStepReturn",
    "RunningMoments",
    "SquashedGaussian",
    "VTrace",
    "advantage_weights",
    "approx_kl",
    "clip_fraction",
    "clipped_surrogate",
    "clipped_value_loss",
    "conjugate_gradient",
    "conservative_gap",
    "detach",
    "discounted_returns",
    "expectile_loss",
    "explained_variance",
    "gae",
    "importance_weights",
    "kl_divergence",
    "lambda_returns",
    "merge_moments",
    "n_step_return",
    "normalize_advantage",
    "project_distribution",
    "quantile_huber",
    "regression_loss",
    "reverse_scan",
    "sampled_conservative_gap",
    "squared_mmd",
    "truncated_mixture",
    "v_trace",
    "weighted_mean",
    "weighted_means",
]
