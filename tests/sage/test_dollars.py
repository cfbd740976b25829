"""Dollar amounts as people read them."""

from __future__ import annotations

import pytest

from sage.dollars import in_usd


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.2346e-7, "1.235e-07"),
        (0.000012345, "0.00001234"),
        (-0.0012345, "-0.001234"),
        (0.5, "0.5000"),
        (12.3456, "12.35"),
        (123456.789, "123,456.79"),
        (float("inf"), "inf"),
    ],
)
def test_four_digits_count_whatever_a_call_costs(value: float, text: str) -> None:
    assert in_usd(value) == text


def test_increases_have_a_sign() -> None:
    assert (in_usd(0.25, "+"), in_usd(0.0, "+"), in_usd(2e-9, "+")) == ("+0.2500", "+0", "+2e-09")
