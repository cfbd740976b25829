"""Conditions on runs: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest

from rl_training.experiment.run_query import check_fields, parse_query

RUN = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "score": 450.0,
    "seed": 3,
    "success": None,
    "run": "ppo/a b",
    "env.noisy": True,
    "algorithm.net_arch": [64, 64],
    "training.device": "not",
}
MEANINGS = [
    ("algorithm=ppo and score>400", True),
    ("algorithm==sac or score>=450", True),
    ("algorithm=sac and score>0 or seed=3", True),  # `and` binds more tightly
    ("algorithm=sac and (score>0 or seed=3)", False),
    ("not algorithm=sac and seed!=4", True),
    ("not (algorithm=ppo or seed=4)", False),
    ("score<4.5e2", False),
    ("score <= 4_50", True),
    ("env=CartPole-v1", True),
    ("env ~ cartpole", True),
    ("env ~ pole-v0", False),
    ("run='ppo/a b'", True),
    ('training.device="not"', True),
    ("success=none", True),
    ("success!=none", False),
    ("score!=none", True),
    ("success>0", False),  # unknown is not larger than anything,
    ("success<=0", False),  # nor smaller
    ("env.noisy=true", True),
    ("env.noisy=false", False),
    ("seed=3.0", True),
    ("algorithm>a and algorithm<q", True),
    ("AND=1 or seed=3", True),  # a keyword only where one can stand
]


@pytest.mark.parametrize(("text", "expected"), MEANINGS)
def test_a_condition_means_what_it_says(text: str, expected: bool) -> None:
    assert parse_query(text).holds(RUN) is expected


@pytest.mark.parametrize("text", ["score>4OO", "not score>4OO"])
def test_a_mistyped_number_is_not_a_condition_that_no_run_fulfils(text: str) -> None:
    with pytest.raises(ValueError, match="score>4OO: score is a number, so give one, such as score>450"):
        parse_query(text).holds(RUN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a field, found the end"),
        ("score", "expected a comparison after 'score', found the end"),
        ("score 400", "expected a comparison after 'score', found '400'"),
        ("score>", "expected a value after score>, found the end"),
        ("score>400 seed=3", "expected and or or, found 'seed'"),
        ("(score>400", "expected a closing parenthesis, found the end"),
        ("score>400)", r"expected and or or, found '\)'"),
        ("score>400 and", "expected the name of a field, found the end"),
        ("run='ppo", '"\'ppo" cannot be read'),
        ("__import__('os')", "expected a comparison after '__import__', found '\\('"),
    ],
)
def test_what_cannot_be_read_is_shown_with_the_grammar(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}: write conditions such as algorithm=ppo and score>400"):
        parse_query(text)


def test_an_unknown_field_is_named_with_the_nearest() -> None:
    assert parse_query("algorithm=ppo and score>1 or score<0").fields == ("algorithm", "score")
    with pytest.raises(ValueError, match="--where: no run has a field 'scor': did you mean 'score'"):
        check_fields(("algorithm", "scor"), tuple(RUN), "--where")
    with pytest.raises(ValueError, match="'qqqq': choose from algorithm, env, score"):
        check_fields(("qqqq",), tuple(RUN), "--where")


def test_long_conditions_hold_and_deep_ones_are_refused() -> None:
    many = parse_query(" or ".join(f"seed={seed}" for seed in range(3_000)))
    assert many.holds({"seed": 2_999})
    assert not many.holds({"seed": 3_000})
    assert parse_query(" and ".join(["seed=1"] * 3_000)).holds({"seed": 1})
    for deep in ("(" * 5_000, "not " * 5_000 + "seed=1"):
        with pytest.raises(ValueError, match="nests more than 50 parentheses and nots"):
            parse_query(deep)
