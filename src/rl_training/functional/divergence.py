"""Kullback-Leibler divergence between two action distributions of the same kind, one number per row."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from rl_training.functional.distributions import Bernoulli, Categorical, DiagGaussian, Distribution, MultiCategorical


def kl_divergence(old: Distribution, new: Distribution) -> Tensor:
    """KL(old, new): how far `new` is from `old`, measured where `old` acts."""
    match old, new:
        case Categorical(), Categorical():
            return (old.log_probs.exp() * (old.log_probs - new.log_probs)).sum(-1)
        case MultiCategorical(), MultiCategorical():
            return sum(
                (kl_divergence(a, b) for a, b in zip(old.parts, new.parts, strict=True)),
                start=old.parts[0].entropy() * 0,
            )
        case Bernoulli(), Bernoulli():
            cross = F.binary_cross_entropy_with_logits(new.logits, old.logits.sigmoid(), reduction="none").sum(-1)
            return cross - old.entropy()
        case DiagGaussian(), DiagGaussian():
            ratio = (2 * (old.log_std - new.log_std)).exp()
            shift = ((old.mean - new.mean) * (-new.log_std).exp()).square()
            return (0.5 * (ratio + shift - 1) + new.log_std - old.log_std).sum(-1)
    raise TypeError(f"no divergence between {type(old).__name__} and {type(new).__name__}")
