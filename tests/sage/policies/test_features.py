"""What a policy sees: exact numbers, and a log that replays as it was routed."""

import numpy as np
import pytest

from sage.log.records import ROLES, Request
from sage.policies.features import COLUMN, LONG, NAMES, VARIABLES, contexts_of, featurize, trigger_variable


def feature(name: str, **request: object) -> float:
    return float(featurize(Request(**({"role": "coder"} | request)))[COLUMN[name]])


def variable(name: str, **request: object) -> float:
    row = featurize(Request(**({"role": "coder"} | request)))
    return float(trigger_variable(name, row[None])[0])


def test_an_empty_request_is_its_role_and_nothing_else() -> None:
    row = featurize(Request(role="debugger"))
    assert row.dtype == np.float32
    assert row.shape == (len(NAMES),)
    assert {NAMES[i] for i in np.flatnonzero(row)} == {"role_debugger"}


def test_every_role_has_its_own_column() -> None:
    rows = np.stack([featurize(Request(role=role)) for role in ROLES])
    np.testing.assert_array_equal(rows[:, : len(ROLES)], np.eye(len(ROLES)))


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("please explain", set()),
        ("Traceback (most recent call last)", {"has_stack_trace"}),
        ("it says ValueError: no", {"has_stack_trace"}),
        ("look at src/app/main.py now", {"has_file_path"}),
        ("```\nx\n```", {"has_code"}),
        ("    def run(self)", {"has_code"}),
        ("which?\nA. one\nB. two", {"has_choices"}),
    ],
)
def test_signs_in_the_text(text: str, signs: set[str]) -> None:
    names = ("has_code", "has_stack_trace", "has_file_path", "has_choices")
    assert {name for name in names if feature(name, task=text)} == signs


def test_shares_are_of_the_characters() -> None:
    assert feature("digit_share", task="ab12") == 0.5
    assert feature("symbol_share", task="a=bc") == 0.25
    assert (
        feature("symbol_share", task="é=ß\ud800") == 0.25
    )  # characters, not bytes; half a surrogate is no reason to fail


def test_what_is_not_known_differs_from_zero() -> None:
    assert feature("probe_known") == 0.0
    assert feature("probe_known", probe_calls=0) == 1.0
    assert feature("log_probe_calls", probe_calls=0) == feature("log_probe_calls")
    assert np.isnan(variable("probe_verified"))
    assert variable("probe_verified", probe_verified=False) == 0.0


def test_complexity_adds_signs_up_as_independent_chances() -> None:
    assert feature("task_complexity_score") == 0.0
    assert feature("task_complexity_score", past_failures=1) == pytest.approx(0.4)
    assert feature("task_complexity_score", past_failures=2) == pytest.approx(0.64)
    assert feature("task_complexity_score", past_failures=1, probe_verified=False) == pytest.approx(1 - 0.6 * 0.4)
    assert feature("task_complexity_score", task="a" * LONG) == pytest.approx(0.5)
    assert feature("task_complexity_score", task="a " * LONG, past_failures=50) <= 1.0


@pytest.mark.parametrize("number", [0, 1, 2, 17, 4096, 250_000])
def test_variables_come_back_exactly_from_logged_features(number: int) -> None:
    assert variable("task_characters", task="x" * number) == number
    assert variable("past_failures", past_failures=number) == number
    assert variable("probe_calls", probe_calls=number) == number
    assert variable("task_lines", task="\n" * number) == number + (number > 0)


def test_probe_cost_comes_back() -> None:
    assert variable("probe_cost_usd", probe_cost_usd=0.0371) == pytest.approx(0.0371, rel=1e-5)


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_is_one_number_per_row(name: str) -> None:
    assert trigger_variable(name, np.zeros((3, len(NAMES)), np.float32)).shape == (3,)


def test_contexts_keep_the_order_of_requests() -> None:
    requests = [Request(role="coder", category="a", task_id="1"), Request(role="planner", task="x", task_id="2")]
    contexts = contexts_of(requests)
    assert contexts.role.tolist() == ["coder", "planner"]
    assert contexts.category.tolist() == ["a", ""]
    assert contexts.task_id.tolist() == ["1", "2"]
    np.testing.assert_array_equal(contexts.features, np.stack([featurize(r) for r in requests]))
    assert contexts_of([]).features.shape == (0, len(NAMES))
