"""The probabilities that a request gets. Nothing else computes them: the router draws from them, the log stores them, and
proofs and benchmarks believe them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from sage.log.record_checks import SUM_TOLERANCE
from sage.policies.cascades.cascade_policy import CascadePolicy, CascadeStates
from sage.policies.policy import Contexts, RoutingPolicy, with_exploration

OK, LOW_CONFIDENCE, POLICY_FAILED, POLICY_INVALID = "ok", "low_confidence", "policy_failed", "policy_invalid"


@runtime_checkable
class Fallback(Protocol):
    """The chooser for rows that a policy may not decide: a static table, or the incumbent of a log."""

    def choices(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns int [n], the column of each row's model, without exploration."""
        ...


class Exploration(Protocol):
    """A share of the calls that goes to other models, whoever decides."""

    def explored(
        self, probabilities: np.ndarray, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray
    ) -> np.ndarray:
        """Mixes the share into probabilities [n, models]."""
        ...


class GuardRules(NamedTuple):
    """The part of a guard that probabilities depend on.

    `failures` are the errors of a policy after which the fallback decides. Only a server, which owes every request an answer,
    gives any; in a proof or a benchmark a policy that fails, or gives no distribution, raises.
    """

    floor: float  # the confidence from which on the policy decides
    fallback: Fallback
    exploration: Exploration | None = None  # None: off, as in proofs and benchmarks
    failures: tuple[type[Exception], ...] = ()


class StepRules(NamedTuple):
    """The same for the steps of a cascade, which has no confidence and so no floor."""

    fallback: CascadePolicy | None = None  # None: the policy decides every row
    exploration: float = 0.0  # share of the steps, drawn evenly among all that is possible
    failures: tuple[type[Exception], ...] = ()


class ServingDistribution(NamedTuple):
    """The probabilities of every row, and who decides it. Columns are models; for steps of a cascade, the last is to stop."""

    probabilities: np.ndarray  # float64 [n, columns]
    preferred: np.ndarray  # int64 [n]: the column that would be chosen without exploration
    decides: np.ndarray  # bool [n]: the policy decides; else the fallback
    asked: Asked | None = None  # None: there was no policy to ask

    @property
    def confidence(self) -> np.ndarray:
        """float64 [n]; NaN where nothing has one."""
        return np.full(len(self.decides), np.nan) if self.asked is None else self.asked.confidence

    @property
    def verdict(self) -> np.ndarray:
        """text [n]: why the fallback decides; 'ok' where the policy does, or where there is none."""
        if self.asked is None:
            return np.full(len(self.decides), OK)
        refused = POLICY_INVALID if self.asked.error is None else POLICY_FAILED
        return np.where(self.decides, OK, np.where(self.asked.valid, LOW_CONFIDENCE, refused))


class Asked(NamedTuple):
    """A policy's own answer."""

    probabilities: np.ndarray  # float64 [n, columns]
    confidence: np.ndarray  # float64 [n]
    valid: np.ndarray  # bool [n]: rows with a distribution over the eligible columns
    error: Exception | None = None  # of a policy that failed


Answer = Callable[[], np.ndarray]


def serving_distribution(
    policy: RoutingPolicy | None, guard: GuardRules, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray
) -> ServingDistribution:
    """Returns the probabilities of n requests among their `eligible` (bool [n, models]) models.

    The policy decides where it is at least as sure as the floor; elsewhere, and everywhere if it is None, the fallback does.
    A row alone and the same row in a batch get the same bits, if the policy's own answer has them.

    Raises what the policy raises, and ValueError where it gives no distribution, unless the guard takes failures.
    """
    rows = contexts, models, eligible
    asked = None
    if policy is None:
        preferred, decides = guard.fallback.choices(*rows), np.zeros(len(eligible), bool)
        certain = np.eye(len(models))[preferred]
    else:
        confidence, probabilities = partial(policy.confidence, *rows), partial(policy.probabilities, *rows)
        asked = ask(policy.name, confidence, probabilities, eligible, guard.failures)
        certain, decides = decided(
            asked, guard.floor, lambda: np.eye(len(models))[guard.fallback.choices(*rows)], len(eligible)
        )
        preferred = certain.argmax(axis=1)
    explored = certain if guard.exploration is None else guard.exploration.explored(certain, *rows)
    return ServingDistribution(explored, preferred, decides, asked)


def step_distribution(
    policy: CascadePolicy | None,
    rules: StepRules,
    states: CascadeStates,
    models: tuple[str, ...],
    eligible: np.ndarray,
) -> ServingDistribution:
    """Returns the probabilities of n steps of cascades over their `eligible` (bool [n, models + 1]) models and stopping.

    The policy decides; the fallback does where the policy is None or, if the rules take failures, where it fails.

    Raises what the policy raises, and ValueError where it gives no distribution, unless the rules take failures.
    """
    rows, asked = (states, models, eligible), None
    if policy is not None:
        sure = partial(np.full, len(eligible), np.nan)
        asked = ask(policy.name, sure, partial(policy.step_probabilities, *rows), eligible, rules.failures)

    def fall_back() -> np.ndarray:
        assert rules.fallback is not None, "without a fallback, a policy has to decide every row"
        return rules.fallback.step_probabilities(*rows)

    certain, decides = decided(asked, None, fall_back, len(eligible))
    explored = with_exploration(certain, eligible, rules.exploration) if rules.exploration else certain
    return ServingDistribution(explored, certain.argmax(axis=1), decides, asked)


def ask(
    name: str, confidence: Answer, probabilities: Answer, eligible: np.ndarray, failures: tuple[type[Exception], ...]
) -> Asked:
    """Asks a policy for all rows at once, so that a failure is one of all rows: a server asks about one at a time."""
    try:
        sure = np.asarray(confidence(), np.float64).reshape(len(eligible))
        own = np.asarray(probabilities(), np.float64)
    except failures as error:
        nothing = np.full(len(eligible), np.nan)
        return Asked(np.zeros(eligible.shape), nothing, np.zeros(len(eligible), bool), error)
    if own.shape != eligible.shape:
        own = np.full(eligible.shape, np.nan)
    valid = are_distributions(own, eligible)
    if not failures and not valid.all():
        raise ValueError(f"{name} gives no probabilities in {np.count_nonzero(~valid)} of {len(valid)} rows")
    return Asked(own, sure, valid)


def decided(
    asked: Asked | None, floor: float | None, fall_back: Answer, num_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities before exploration, and bool [n]: the rows in which the policy decides."""
    if asked is None:
        return fall_back(), np.zeros(num_rows, bool)
    decides = asked.valid if floor is None else asked.valid & (asked.confidence >= floor)  # NaN is not sure
    if decides.all():
        return asked.probabilities, decides
    return np.where(decides[:, None], asked.probabilities, fall_back()), decides


def are_distributions(probabilities: np.ndarray, eligible: np.ndarray) -> np.ndarray:
    """Returns bool [n]: the rows that add up to 1, with nothing below 0 and nothing on columns that are not eligible."""
    outside = (probabilities < 0) | ((probabilities > 0) > eligible)
    total = np.where(outside, np.nan, probabilities).sum(axis=1)
    return np.abs(total - 1) <= SUM_TOLERANCE  # which NaN is not
