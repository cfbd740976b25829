"""KL divergence: known answers, and torch.distributions as the second opinion."""

import pytest
import torch
from torch import Tensor, distributions

from rl_training.functional import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    Distribution,
    MultiCategorical,
    detach,
    kl_divergence,
)

ROWS = 200


def draw(*shape: int, seed: int) -> Tensor:
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(kind: str, seed: int) -> Distribution:
    match kind:
        case "categorical":
            return Categorical.from_logits(draw(ROWS, 5, seed=seed))
        case "multi":
            return MultiCategorical.from_logits(draw(ROWS, 7, seed=seed), (2, 4, 1))
        case "bernoulli":
            return Bernoulli(draw(ROWS, 3, seed=seed))
        case _:
            return DiagGaussian(draw(ROWS, 3, seed=seed), draw(3, seed=seed + 1000) / 2)


def reference(old: Distribution, new: Distribution) -> Tensor:
    """The same divergence by torch.distributions."""

    def theirs(ours: Distribution) -> distributions.Distribution:
        match ours:
            case Categorical(log_probs):
                return distributions.Categorical(logits=log_probs)
            case Bernoulli(logits):
                return distributions.Independent(distributions.Bernoulli(logits=logits), 1)
            case DiagGaussian(mean, log_std):
                return distributions.Independent(distributions.Normal(mean, log_std.exp().expand_as(mean)), 1)
        raise AssertionError(ours)

    if isinstance(old, MultiCategorical):
        return torch.stack([reference(a, b) for a, b in zip(old.parts, new.parts, strict=True)]).sum(0)
    return distributions.kl_divergence(theirs(old), theirs(new))


every_kind = pytest.mark.parametrize("kind", ["categorical", "multi", "bernoulli", "gaussian"])


@every_kind
def test_equals_torch(kind: str) -> None:
    old, new = make(kind, 0), make(kind, 1)
    torch.testing.assert_close(kl_divergence(old, new), reference(old, new), rtol=1e-9, atol=1e-9)


@every_kind
def test_is_zero_for_equal_and_positive_otherwise(kind: str) -> None:
    old, new = make(kind, 0), make(kind, 1)
    torch.testing.assert_close(kl_divergence(old, old), torch.zeros(ROWS, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (kl_divergence(old, new) > 0).all()
    assert (kl_divergence(new, old) > 0).all()
    assert not torch.allclose(kl_divergence(old, new), kl_divergence(new, old))  # it has a direction


def test_the_published_gaussian_number() -> None:
    old = DiagGaussian(torch.tensor([[0.0]]), torch.tensor([0.0]))
    new = DiagGaussian(torch.tensor([[1.0]]), torch.tensor([2.0]).log())
    assert kl_divergence(old, new).item() == pytest.approx(0.443147, abs=1e-6)


def test_a_categorical_by_hand() -> None:
    old, new = (Categorical(torch.tensor([p]).log()) for p in ([0.2, 0.5, 0.3], [0.4, 0.4, 0.2]))
    assert kl_divergence(old, new).item() == pytest.approx(0.5 * 0.223144 + 0.3 * 0.405465 - 0.2 * 0.693147, abs=1e-6)


def test_forbidden_choices_add_nothing() -> None:
    mask = torch.tensor([[1, 0, 1]])
    old, new = (Categorical.from_logits(torch.tensor([logits]), mask) for logits in ([1.0, 5.0, 0.0], [0.0, -9.0, 0.5]))
    alone = [Categorical.from_logits(torch.tensor([logits])) for logits in ([1.0, 0.0], [0.0, 0.5])]
    torch.testing.assert_close(kl_divergence(old, new), kl_divergence(*alone))


@every_kind
def test_the_slope_is_zero_where_both_are_equal(kind: str) -> None:
    logits = draw(ROWS, 7, seed=3).requires_grad_()
    same = {
        "categorical": lambda: Categorical.from_logits(logits),
        "multi": lambda: MultiCategorical.from_logits(logits, (2, 4, 1)),
        "bernoulli": lambda: Bernoulli(logits),
        "gaussian": lambda: DiagGaussian(logits, logits[0]),
    }[kind]()
    (slope,) = torch.autograd.grad(kl_divergence(detach(same), same).sum(), logits)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


def test_two_kinds_have_no_divergence() -> None:
    with pytest.raises(TypeError, match="no divergence between Categorical and Bernoulli"):
        kl_divergence(make("categorical", 0), make("bernoulli", 0))
