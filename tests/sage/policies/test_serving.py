"""One function says which probabilities a request gets, alone and in a batch; a proof never hides a policy that fails."""

from __future__ import annotations

import numpy as np
import pytest

from sage.log.records import Request
from sage.policies.cascades.cascade_ladder import LadderCascade
from sage.policies.cascades.cascade_policy import ACCEPTED, CascadeStates, select_states
from sage.policies.features import contexts_of
from sage.policies.policy import Contexts, select_rows, with_exploration
from sage.policies.serving import GuardRules, StepRules, are_distributions, serving_distribution, step_distribution

MODELS = ("small", "large")
ROLES = ("coder", "debugger", "planner")
CONTEXTS = contexts_of([Request(role=role) for role in ROLES])
ELIGIBLE = np.array([[True, True], [True, True], [False, True]])


class First:
    """Falls back on the first model that may answer, and explores all."""

    def choices(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return eligible.argmax(axis=1)

    def explored(
        self, probabilities: np.ndarray, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray
    ) -> np.ndarray:
        return with_exploration(probabilities, eligible, 0.5)


class Large:
    """The large model; how sure it is depends on the role."""

    name, version = "large", "1"

    def __init__(self, share: float = 1.0, error: Exception | None = None) -> None:
        self.share, self.error = share, error

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        if self.error is not None:
            raise self.error
        return np.tile([0.0, self.share], (len(contexts.role), 1))

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.array([{"coder": 0.9, "debugger": np.nan, "planner": 0.89}[role] for role in contexts.role.tolist()])

    def step_probabilities(self, states: CascadeStates, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.column_stack([self.probabilities(states.contexts, models, eligible), np.zeros(len(eligible))])


PROOF = GuardRules(0.9, fallback=First())
SERVED = GuardRules(0.9, First(), exploration=First(), failures=(ValueError,))


def test_the_policy_decides_from_the_floor_on() -> None:
    found = serving_distribution(Large(), PROOF, CONTEXTS, MODELS, ELIGIBLE)
    assert found.probabilities.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert found.decides.tolist() == [True, False, False]
    assert found.verdict.tolist() == ["ok", "low_confidence", "low_confidence"]
    np.testing.assert_array_equal(found.confidence, [0.9, np.nan, 0.89])


def test_exploration_moves_probabilities_and_not_the_preferred_model() -> None:
    found = serving_distribution(Large(), SERVED, CONTEXTS, MODELS, ELIGIBLE)
    assert found.probabilities.tolist() == [[0.25, 0.75], [0.75, 0.25], [0, 1]]
    assert found.preferred.tolist() == [1, 0, 1]


@pytest.mark.parametrize("policy", [None, Large(), Large(share=0.9), Large(error=ValueError("shape"))])
def test_a_row_alone_and_in_a_batch_are_the_same(policy: Large | None) -> None:
    batch = serving_distribution(policy, SERVED, CONTEXTS, MODELS, ELIGIBLE)
    for row in range(3):
        one = np.array([row])
        alone = serving_distribution(policy, SERVED, select_rows(CONTEXTS, one), MODELS, ELIGIBLE[one])
        for name in ("probabilities", "preferred", "decides", "confidence", "verdict"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(batch, name)[one])


def test_without_a_policy_the_fallback_decides_and_nothing_is_wrong() -> None:
    found = serving_distribution(None, PROOF, CONTEXTS, MODELS, ELIGIBLE)
    assert found.probabilities.tolist() == [[1, 0], [1, 0], [0, 1]]
    assert (found.decides.any(), set(found.verdict.tolist())) == (False, {"ok"})


@pytest.mark.parametrize(
    ("policy", "verdict"), [(Large(error=ValueError("shape")), "policy_failed"), (Large(share=0.9), "policy_invalid")]
)
def test_a_server_answers_for_a_policy_that_fails_and_a_proof_raises(policy: Large, verdict: str) -> None:
    found = serving_distribution(policy, SERVED._replace(exploration=None), CONTEXTS, MODELS, ELIGIBLE)
    assert set(found.verdict.tolist()) == {verdict}
    assert found.probabilities.tolist() == [[1, 0], [1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"shape|large gives no probabilities in 3 of 3 rows"):
        serving_distribution(policy, PROOF, CONTEXTS, MODELS, ELIGIBLE)


def test_other_errors_are_never_taken() -> None:
    with pytest.raises(KeyError):
        serving_distribution(Large(error=KeyError("coder")), SERVED, CONTEXTS, MODELS, ELIGIBLE)


def test_a_distribution_is_over_what_is_eligible() -> None:
    rows = np.array([[0.5, 0.5, 0], [0.5, 0, 0.5], [0.5, 0.4, 0], [1.5, -0.5, 0], [np.nan, 1, 0], [np.inf, -np.inf, 0]])
    eligible = np.tile([True, True, False], (len(rows), 1))
    assert are_distributions(rows, eligible).tolist() == [True, False, False, False, False, False]


STATES = CascadeStates(
    select_rows(CONTEXTS, np.array([0, 0, 0])),
    order=np.array([[0, 0], [1, 0], [1, 0]]),
    verdict=np.array([[0, 0], [-1, 0], [ACCEPTED, 0]]),
    spent_usd=np.zeros(3),
)
STEPS = np.array([[True, True, False], [False, True, True], [False, True, True]])
LADDER = LadderCascade(MODELS)


def test_steps_of_a_cascade_are_shared_by_tier_and_estimate() -> None:
    served = StepRules(LADDER, exploration=0.5, failures=(ValueError,))
    found = step_distribution(None, served, STATES, MODELS, STEPS)
    assert found.probabilities.tolist() == [[0.75, 0.25, 0], [0, 0.75, 0.25], [0, 0.25, 0.75]]
    assert found.preferred.tolist() == [0, 1, 2]
    believed = step_distribution(LADDER, StepRules(), STATES, MODELS, STEPS)
    assert believed.probabilities.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    for row in range(3):
        one = np.array([row])
        alone = step_distribution(None, served, select_states(STATES, one), MODELS, STEPS[one])
        np.testing.assert_array_equal(alone.probabilities, found.probabilities[one])


def test_a_cascade_that_fails_leaves_the_step_to_the_ladder_and_a_proof_raises() -> None:
    served = StepRules(LADDER, failures=(ValueError,))
    failed = step_distribution(Large(error=ValueError("shape")), served, STATES, MODELS, STEPS)
    assert (failed.preferred.tolist(), set(failed.verdict.tolist())) == ([0, 1, 2], {"policy_failed"})
    with pytest.raises(ValueError, match="shape"):
        step_distribution(Large(error=ValueError("shape")), StepRules(), STATES, MODELS, STEPS)
