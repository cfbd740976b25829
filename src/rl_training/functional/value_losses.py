"""Errors of values and of distributions of returns, one number per row."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.core import ALONE, Ranks


def importance_weights(probability: Tensor, beta: Tensor | float, ranks: Ranks = ALONE) -> Tensor:
    """Returns importance weights for prioritised sampling: `probability` [batch] ** -`beta`, divided by the largest.

    The largest is that over all ranks. Section 3.4 of arXiv:1511.05952.
    """
    weight = probability.pow(-beta)
    return weight / ranks.largest(weight.max())


def conservative_gap(q: Tensor, action: Tensor) -> Tensor:
    """Returns, [batch], the logsumexp of values `q` [batch, actions] minus the value of `action` [batch].

    Equation 4 of arXiv:2006.04779.
    """
    return q.logsumexp(-1) - q.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def sampled_conservative_gap(q: Tensor, log_density: Tensor, data_q: Tensor) -> Tensor:
    """Returns an estimate [..., batch] of the logsumexp of all actions' values minus the value of the data's action.

    `q` [..., batch, sample] are values of actions drawn with `log_density` [batch, sample], and `data_q` [..., batch]
    those of the data's (arXiv:2006.04779, appendix F). The constant log of the number of samples is left in.
    """
    return (q - log_density).logsumexp(-1) - data_q


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Returns every squared error times `expectile` if the error is positive and times 1 - `expectile` if negative.

    An error is target - prediction (arXiv:2110.06169, eq. 4).
    """
    return (expectile - (error.detach() < 0).to(error.dtype)).abs() * error.square()


def advantage_weights(advantage: Tensor, beta: float, largest: float) -> Tensor:
    """Returns weights for cloning actions: exp(beta * advantage), at most `largest` (arXiv:2110.06169, eq. 7)."""
    return (beta * advantage).exp().clamp(max=largest)


def project_distribution(probs: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Returns the probabilities [batch, atoms] of reward + discount * z, where z is an atom with probability `probs`.

    `probs` is [batch, atoms], `reward` and `discount` are [batch], and `atoms` are evenly spaced. A value between two
    atoms gives its mass to both, most to the nearer; beyond the ends it stays there (arXiv:1707.06887, algorithm 1).
    """
    spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    moved = (reward.unsqueeze(-1) + discount.unsqueeze(-1) * atoms).clamp(atoms[0], atoms[-1])
    place = (moved - atoms[0]) / spacing
    # On the GPU adding by index is faster too, but its order, and so the last bit, would differ from run to run.
    return spread_by_distance(probs, place) if probs.is_cuda else spread_by_index(probs, place)


def spread_by_index(mass: Tensor, place: Tensor) -> Tensor:
    """Returns sums of mass [..., n] at the numbers 0 to n - 1, for `mass` [..., n] at `place` [..., n] between them.

    Each mass is split between the two numbers around its place, most to the nearer.
    """
    below = place.floor().clamp(max=place.shape[-1] - 2)
    share = place - below
    spread = torch.zeros_like(mass).scatter_add(-1, below.long(), mass * (1 - share))
    return spread.scatter_add(-1, below.long() + 1, mass * share)


def spread_by_distance(mass: Tensor, place: Tensor) -> Tensor:
    """Returns the result of `spread_by_index`, computed from all pairs of place and number, in a fixed order."""
    number = torch.arange(place.shape[-1], device=place.device).unsqueeze(-1)
    return ((1 - (place.unsqueeze(-2) - number).abs()).clamp(min=0) * mass.unsqueeze(-2)).sum(-1)


def quantile_huber(current: Tensor, fractions: Tensor, target: Tensor, kappa: float) -> Tensor:
    """Returns the loss [batch] of quantiles `current` [batch, n] for `target` [batch, m] (arXiv:1710.10044).

    `fractions`, [n] or [batch, n], are those of the quantiles. The loss is summed over these and averaged over the
    targets; `kappa` is Huber's threshold, and 0 gives the plain quantile loss.
    """
    error = target.unsqueeze(-2) - current.unsqueeze(-1)  # [batch, n, m]
    size = error.abs()
    if kappa > 0:
        size = torch.where(size <= kappa, 0.5 * error.square(), kappa * (size - 0.5 * kappa)) / kappa
    below = (error.detach() < 0).to(error.dtype)
    return ((fractions.unsqueeze(-1) - below).abs() * size).mean(-1).sum(-1)


def truncated_mixture(quantiles: Tensor, dropped: int) -> Tensor:
    """Returns the quantiles [critic, batch, n] of all critics pooled and sorted, without the largest: [batch, kept].

    The largest critics * `dropped` are left out, so kept is critics * (n - `dropped`) (arXiv:2005.04269, eq. 11).
    """
    critics, _, num = quantiles.shape
    pooled = quantiles.transpose(0, 1).flatten(1).sort(-1).values
    return pooled[:, : critics * (num - dropped)]


def regression_loss(current: Tensor, target: Tensor, kind: str) -> Tensor:
    """Returns Huber's loss (threshold 1, as in DQN) per element if `kind` is "huber", otherwise the squared error."""
    if kind == "huber":
        return F.smooth_l1_loss(current, target, reduction="none")
    return (current - target).square()
