"""The trigger language says yes and no exactly, and refuses what it does not know when it is read."""

import numpy as np
import pytest

from sage.log.records import Request
from sage.orchestrator.triggers import Condition, TriggerError
from sage.policies.features import featurize


def holds(text: str, **request: object) -> bool:
    row = featurize(Request(**({"role": "coder"} | request)))
    return bool(Condition.parse(text).holds(row[None])[0])


@pytest.mark.parametrize(
    ("operator", "answers"),
    [
        (">", (False, False, True)),
        (">=", (False, True, True)),
        ("<", (True, False, False)),
        ("<=", (True, True, False)),
        ("==", (False, True, False)),
        ("!=", (True, False, True)),
    ],
)
def test_every_operator(operator: str, answers: tuple[bool, ...]) -> None:
    assert tuple(holds(f"past_failures {operator} 2", past_failures=n) for n in (1, 2, 3)) == answers


def test_and_binds_before_or_and_brackets_before_both() -> None:
    text = "past_failures > 5 or task_lines > 0 and has_code == 1"
    assert holds(text, past_failures=6)
    assert not holds(text, task="words")
    assert not holds("(past_failures > 5 or task_lines > 0) and has_code == 1", past_failures=6)


@pytest.mark.parametrize("operator", [">", "<", "==", "!=", ">=", "<="])
def test_what_is_not_known_triggers_nothing(operator: str) -> None:
    assert not holds(f"probe_verified {operator} 0")
    assert not holds(f"probe_calls {operator} 0")


def test_negative_numbers_are_numbers() -> None:
    assert holds("past_failures > -1")


def test_rows_are_answered_one_by_one() -> None:
    rows = np.stack([featurize(Request(role="coder", past_failures=n)) for n in range(4)])
    assert Condition.parse("past_failures >= 2").holds(rows).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "task_complexity > 0.8",
            "'task_complexity' in 'task_complexity > 0.8' is not a variable: did you mean 'task_comp",
        ),
        ("zzz > 1", "'zzz' in 'zzz > 1' is not a variable: choose from task_complexity_score"),
        ("past_failures =~ 2", "is not a condition"),
        ("past_failures in 2", "the operator of 'past_failures in 2'"),
        ("past_failures is 2", "the operator of 'past_failures is 2'"),
        ("past_failures", "'past_failures' in 'past_failures' is not understood"),
        ("not past_failures > 2", "is not understood"),
        ("1 < past_failures < 3", "is not understood"),
        ("past_failures + 1 > 2", "'past_failures + 1' in 'past_failures + 1 > 2' is not a variable"),
        ("past_failures > '2'", "is not a number"),
        ("past_failures > True", "is not a number"),
        ("past_failures > has_code", "'has_code' in 'past_failures > has_code' is not a number"),
        ("__import__('os').getpid() > 1", "is not a variable"),
        ("", "is not a condition"),
        (0.8, "0.8 is not a condition"),
    ],
)
def test_what_is_not_known_is_an_error_when_it_is_read(text: object, sentence: str) -> None:
    with pytest.raises(TriggerError) as caught:
        Condition.parse(text)
    assert sentence in str(caught.value)
