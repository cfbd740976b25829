"""Secrets never reach the log, and what is not a secret stays."""

import pytest

from sage.redaction import REMOVED, redact

# Made up, and put together here so that no scanner takes this file for a leak.
SECRETS = [
    "sk-" + "a1B2" * 8,
    "sk-proj-" + "a1B2" * 8,
    "sk-ant-api03-" + "aB3_" * 8,
    "sk_" + "live_" + "a1B2" * 6,
    "gh" + "p_" + "A1b2" * 9,
    "github" + "_pat_" + "A1b2" * 9,
    "glpat-" + "a1B2" * 5,
    "AKIA" + "ABCD" * 4,
    "xoxb-" + "1234-" * 4 + "abcd",
    "AIza" + "a1B2" * 9,
    "hf_" + "a1B2" * 8,
    "eyJ" + "hbGciOi" * 2 + "." + "eyJzdWIi" * 2 + "." + "SflKxwRJ",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:8])
@pytest.mark.parametrize("around", ["{}", "use {} please", "line\n{}\nline", '"{}"', "key={}"])
def test_a_secret_is_removed(secret: str, around: str) -> None:
    cleaned = redact(around.format(secret))
    assert secret not in cleaned
    assert REMOVED in cleaned


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://me:hunter22@host/db", "hunter22"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ('{"api_key": "not-so-secret"}', "not-so-secret"),
        ("DB_PASSWORD=letmein99", "letmein99"),
    ],
)
def test_a_named_secret_is_removed(text: str, secret: str) -> None:
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "fix the flaky test in tests/test_secret_santa.py",
        "ask-the-model about risk-free-rates-of-return-today",
        "https://example.com/a/b?c=d",
        "the password is checked in login()",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_a_key_that_is_cut_off_is_removed_to_the_end() -> None:
    assert "MIIE" not in redact("-----BEGIN PRIVATE KEY-----\nMIIE\nmore")
