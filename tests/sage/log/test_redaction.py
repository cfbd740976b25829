"""Secrets never reach the log, and what is not a secret stays."""

import pytest

from sage.log.redaction import REMOVED, redact
from tests.sage.secret_cases import CASES, HARMLESS, NAMED, SHAPED, Case


def named(cases: list[Case]) -> dict:
    return {"argvalues": cases, "ids": [case.name for case in cases]}


@pytest.mark.parametrize("case", **named(SHAPED))
@pytest.mark.parametrize("around", ["{}", "use {} please", "line\n{}\nline", '"{}"', "key={}", "({})"])
def test_a_key_is_known_by_its_shape(case: Case, around: str) -> None:
    cleaned = redact(around.format(case.text))
    assert case.secret not in cleaned
    assert REMOVED in cleaned


@pytest.mark.parametrize("case", **named(NAMED))
@pytest.mark.parametrize("around", ["{}", "first {} then", "line\n{}\nline"])
def test_a_value_is_known_by_its_name(case: Case, around: str) -> None:
    cleaned = redact(around.format(case.text))
    assert case.secret not in cleaned
    assert REMOVED in cleaned
    before, _, after = around.format(case.text).partition(case.secret)
    assert cleaned == before + REMOVED + after  # the name stays, and so does what follows


@pytest.mark.parametrize("case", **named(HARMLESS))
def test_other_text_stays(case: Case) -> None:
    assert redact(case.text) == case.text


@pytest.mark.parametrize("case", **named(CASES))
def test_a_second_pass_finds_nothing(case: Case) -> None:
    once = redact(case.text)
    assert redact(once) == once  # names of sessions are cleaned when they are stored and when they are looked up


def test_there_are_enough_cases() -> None:
    assert len(CASES) == len({case.text for case in CASES}) >= 60


def test_a_key_that_is_cut_off_is_removed_to_the_end() -> None:
    assert "MIIE" not in redact("-----BEGIN PRIVATE KEY-----\nMIIE\nmore")


@pytest.mark.parametrize("text", ["a", "token=", "://:", "-u a", "_", "password", "-----BEGIN ", "login x "])
def test_long_texts_of_one_piece_are_done_and_stay(text: str) -> None:
    assert redact(text * 2000).replace(REMOVED, "").strip("token=") in (text * 2000, "")
