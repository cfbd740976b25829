"""Parts of on-policy losses, and measures of how well values fit. Rows with weight 0 never count."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.core import ALONE, Ranks

PARTS = 256  # of a sum on a GPU: about two for every multiprocessor
TINY = torch.finfo(torch.float32).tiny


def total(x: Tensor) -> Tensor:
    """Returns the sum of all elements; on a GPU by parts, because compilers give a sum to one multiprocessor only."""
    if x.is_cuda and x.numel() % PARTS == 0:
        x = x.reshape(PARTS, -1).sum(1)
    return x.sum()


def weighted_mean(x: Tensor, weight: Tensor) -> Tensor:
    """Returns the mean of all elements of `x`, weighted by `weight` of the same shape; 0 if all weights are 0."""
    return weighted_means(weight, x)[0]


def weighted_means(weight: Tensor, *columns: Tensor) -> list[Tensor]:
    """Returns the weighted mean, 0-dim, of every column, a tensor of the shape of `weight`; 0 if all weights are 0."""
    count = total(weight).clamp(min=TINY)
    return [total(x * weight) / count for x in columns]


def normalize_advantage(advantage: Tensor, weight: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """Returns advantages shifted and scaled to weighted mean 0 and (unbiased) deviation 1 over all ranks.

    `weight` has the shape of `advantage`, which is the result's, too.
    """
    if ranks.number > 1:
        return normalize_together(advantage, weight, ranks)
    centred = advantage - weighted_mean(advantage, weight)
    variance = total(centred.square() * weight) / (total(weight) - 1).clamp(min=1.0)
    return centred / (variance.sqrt() + 1e-8)


def normalize_together(advantage: Tensor, weight: Tensor, ranks: Ranks) -> Tensor:
    """Returns the result of `normalize_advantage` for several ranks, by one message of sums in double precision."""
    x, w = advantage.double(), weight.double()
    count, first, second = ranks.sum(torch.stack([total(w), total(x * w), total(x.square() * w)])).unbind()
    mean = first / count.clamp(min=TINY)
    variance = (second - first * mean).clamp(min=0.0) / (count - 1).clamp(min=1.0)
    return ((x - mean) / (variance.sqrt() + 1e-8)).to(advantage.dtype)


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_range: Tensor | float) -> Tensor:
    """Returns PPO's clipped objective per row (arXiv:1707.06347, eq. 7), to be maximised.

    `ratio` is the action's probability under the new policy divided by that under the old one.
    """
    near = ratio.clamp(1 - clip_range, 1 + clip_range)  # pyrefly: ignore (its overloads do not mix kinds of bounds)
    return torch.minimum(ratio * advantage, near * advantage)


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip_range: Tensor | float) -> Tensor:
    """Returns, per row, the larger squared error of `value` and of `value` clipped to `old_value` +- `clip_range`."""
    near = old_value + (value - old_value).clamp(-clip_range, clip_range)  # pyrefly: ignore (as above)
    return torch.maximum((value - target).square(), (near - target).square())


def approx_kl(log_ratio: Tensor) -> Tensor:
    """Returns an estimate of KL(old, new) per row that is never negative: (r - 1) - log r, where log r is `log_ratio`.

    The ratio r is the action's probability under the new policy divided by that under the old one.
    """
    return log_ratio.expm1() - log_ratio


def clip_fraction(ratio: Tensor, clip_range: Tensor | float) -> Tensor:
    """Returns 1.0 for every row whose ratio is further than `clip_range` from 1, and 0.0 for the others."""
    return ((ratio - 1).abs() > clip_range).to(ratio.dtype)


def explained_variance(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Returns 1 - Var[target - prediction] / Var[target], weighted, 0-dim: 1 is perfect, 0 as good as the mean."""
    return 1 - weighted_variance(target - prediction, weight) / weighted_variance(target, weight).clamp(min=1e-12)


def weighted_variance(x: Tensor, weight: Tensor) -> Tensor:
    return weighted_mean((x - weighted_mean(x, weight)).square(), weight)
