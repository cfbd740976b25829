"""The guard: who may be chosen, and a reason whenever the static table answers instead of the policy."""

import math

import numpy as np
import pytest

from sage.log.records import Request
from sage.orchestrator.guard import Candidates, Guard
from sage.orchestrator.static_table import StaticTable
from sage.policies.features import contexts_of
from tests.sage.examples import parsed
from tests.sage.orchestrator.fixed_policy import FixedPolicy

ALL = Candidates(("small", "medium", "large"))
CONTEXTS = contexts_of([Request(role="coder")])


def guard(extra: str = "") -> Guard:
    table = parsed(extra)
    return Guard(StaticTable.from_file(table), table.guard)


def names(extra: str = "", spent: float = 0.0, **request: object) -> tuple[tuple[str, ...], str]:
    found = guard(extra).candidates(Request(**({"role": "coder"} | request)), spent)
    return found.names, found.verdict


def test_models_serve_their_roles_only() -> None:
    assert names() == (("small", "medium", "large"), "ok")
    assert names(role="debugger") == (("small", "medium"), "ok")


def test_a_long_task_needs_a_long_context() -> None:
    assert names(task="x" * 4000) == (("small", "medium", "large"), "ok")  # 1000 tokens: just fits
    assert names(task="x" * 4001) == (("medium", "large"), "ok")


def test_slow_models_are_left_out() -> None:
    assert names("guard: {max_latency_s: 5}\n") == (("small", "medium"), "ok")
    assert names("guard: {max_latency_s: 1}\n") == (("small",), "over_latency")


def test_a_budget_leaves_what_can_be_paid() -> None:
    # A typical answer costs 0.001, 0.015 and 0.075 USD.
    assert names("guard: {budget_usd: 1}\n") == (("small", "medium", "large"), "ok")
    assert names("guard: {budget_usd: 1}\n", spent=0.95) == (("small", "medium"), "ok")
    assert names("guard: {budget_usd: 1}\n", spent=0.99) == (("small",), "ok")
    assert names("guard: {budget_usd: 1}\n", spent=1.5) == (("small",), "over_budget")


def test_a_sure_policy_decides() -> None:
    policy = FixedPolicy({"small": 0.25, "large": 0.75}, sure=0.9)
    judgement = guard().judge(policy, CONTEXTS, ALL)
    assert (judgement.policy, judgement.verdict, judgement.confidence) == (policy, "ok", 0.9)
    assert judgement.probabilities.tolist() == [0.25, 0.0, 0.75]


def test_exploration_is_mixed_into_the_policy_too() -> None:
    judgement = guard("exploration: 0.3\n").judge(FixedPolicy({"large": 1.0}), CONTEXTS, ALL)
    np.testing.assert_allclose(judgement.probabilities, [0.1, 0.1, 0.8])


@pytest.mark.parametrize(
    ("policy", "verdict", "confidence"),
    [
        (FixedPolicy({"large": 1.0}, sure=0.8999), "low_confidence", 0.8999),
        (FixedPolicy({"large": 1.0}, sure=math.nan), "low_confidence", None),
        (FixedPolicy({"large": 0.5}), "policy_invalid", None),
        (FixedPolicy({"large": 2.0, "small": -1.0}), "policy_invalid", None),
        (FixedPolicy({"large": math.nan}), "policy_invalid", None),
        (FixedPolicy({"large": 1.0}, error=ValueError("shape")), "policy_failed", None),
        (FixedPolicy({"large": 1.0}, error=KeyError("coder")), "policy_failed", None),
        (FixedPolicy({"large": 1.0}, error=ZeroDivisionError("x")), "policy_failed", None),
    ],
)
def test_otherwise_the_static_table_answers_with_the_reason(
    policy: FixedPolicy, verdict: str, confidence: float | None
) -> None:
    judgement = guard().judge(policy, CONTEXTS, ALL)
    assert (judgement.policy.name, judgement.verdict, judgement.confidence) == ("static", verdict, confidence)
    assert judgement.probabilities.tolist() == [1.0, 0.0, 0.0]
    assert "fixed" in judgement.reason


def test_a_broken_limit_is_not_left_to_the_policy() -> None:
    judgement = guard().judge(FixedPolicy({"small": 1.0}), CONTEXTS, Candidates(("small",), "over_budget"))
    assert (judgement.policy.name, judgement.verdict) == ("static", "over_budget")


def test_without_a_policy_the_table_is_no_fallback() -> None:
    judgement = guard().judge(None, CONTEXTS, ALL)
    assert (judgement.policy.name, judgement.verdict) == ("static", "ok")
