"""Action distributions as tuples of tensors: sample, mode, log-probability, entropy and divergence of every row."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.core.noise import noise_like

MASKED = -1e8  # a logit far below any other: probability exactly 0 in float32, and 0 * log 0 stays finite


class Categorical(NamedTuple):
    """A distribution over one choice per row, as normalised log-probabilities [..., choices]."""

    log_probs: Tensor

    @classmethod
    def from_logits(cls, logits: Tensor, mask: Tensor | None = None) -> Categorical:
        if mask is not None:
            logits = torch.where(mask.bool(), logits, MASKED)
        return cls(logits.log_softmax(-1))

    def sample(self) -> Tensor:
        # Exponential race: argmax of log p - log E is distributed as p, without a host check of the probabilities.
        return (self.log_probs - noise_like("exponential", self.log_probs).log()).argmax(-1)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class MultiCategorical(NamedTuple):
    """A distribution over several independent choices per row, with a `Categorical` for each."""

    parts: tuple[Categorical, ...]

    @classmethod
    def from_logits(cls, logits: Tensor, nums: tuple[int, ...], mask: Tensor | None = None) -> MultiCategorical:
        masks = (None,) * len(nums) if mask is None else mask.split(nums, -1)
        split = logits.split(nums, -1)
        return cls(tuple(Categorical.from_logits(part, m) for part, m in zip(split, masks, strict=True)))

    def sample(self) -> Tensor:
        return torch.stack([part.sample() for part in self.parts], -1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], -1)

    def log_prob(self, action: Tensor) -> Tensor:
        parts = zip(self.parts, action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(a) for part, a in parts], -1).sum(-1)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts], -1).sum(-1)


class Bernoulli(NamedTuple):
    """A distribution over independent bits, as the logits [..., bits] of being 1."""

    logits: Tensor

    def sample(self) -> Tensor:
        return (noise_like("uniform", self.logits) < self.logits.sigmoid()).long()

    def mode(self) -> Tensor:
        return (self.logits > 0).long()

    def log_prob(self, action: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(self.logits, action.to(self.logits.dtype), reduction="none").sum(-1)

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.logits.sigmoid(), reduction="none").sum(-1)


class DiagGaussian(NamedTuple):
    """A distribution of independent normals with means [..., size] and logarithms of deviations that broadcast to them.

    Log-probabilities and entropies are sums over `size`.
    """

    mean: Tensor
    log_std: Tensor

    def sample(self) -> Tensor:
        return self.mean + self.log_std.exp() * noise_like("normal", self.mean)

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        z = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * z.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).expand_as(self.mean).sum(-1)


class SquashedGaussian(NamedTuple):
    """A distribution of actions tanh(x), [..., size], in (-1, 1), where x is normal with `mean` and exp(`log_std`)."""

    mean: Tensor
    log_std: Tensor

    def draw(self) -> tuple[Tensor, Tensor]:
        """Returns drawn actions [..., size] and their log-probabilities [...]; gradients flow through both.

        Log-probabilities are exact also where tanh saturates.
        """
        before = self.mean + self.log_std.exp() * noise_like("normal", self.mean)
        return torch.tanh(before), self.log_prob_before(before)

    def sample(self) -> Tensor:
        return self.draw()[0]

    def mode(self) -> Tensor:
        return torch.tanh(self.mean)

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability [...] of actions [..., size]; a bound counts as the nearest number inside."""
        inside = 1 - torch.finfo(action.dtype).eps
        return self.log_prob_before(torch.atanh(action.clamp(-inside, inside)))

    def log_prob_before(self, before: Tensor) -> Tensor:
        """Returns the log-probability [...] of the actions tanh(`before`), for `before` [..., size]."""
        slope = 2 * (math.log(2) - before - F.softplus(-2 * before))  # log of 1 - tanh^2, without its cancellation
        return DiagGaussian(self.mean, self.log_std).log_prob(before) - slope.sum(-1)


Distribution = Categorical | MultiCategorical | Bernoulli | DiagGaussian


def detach(distribution: Distribution) -> Distribution:
    """Returns the same distribution with detached tensors, through which no gradient flows."""
    if isinstance(distribution, MultiCategorical):
        return MultiCategorical(tuple(Categorical(part.log_probs.detach()) for part in distribution.parts))
    return type(distribution)(*(leaf.detach() for leaf in distribution))


def kl_divergence(old: Distribution, new: Distribution) -> Tensor:
    """Returns KL(old, new) per row; raises a TypeError for distributions of different kinds or a SquashedGaussian."""
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
