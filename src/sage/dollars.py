"""Amounts in USD as text, readable for a millionth of a dollar as for hundreds."""

from __future__ import annotations

import math

DIGITS = 4  # that count


def in_usd(value: float, sign: str = "") -> str:
    """Formats an amount in USD with at least four significant digits, at least two decimals, and commas.

    `sign="+"` puts a plus sign before amounts above 0. Amounts below 1e-6 or from 1e12 are written with an exponent.
    """
    size = abs(value)
    if value == 0 or not 1e-6 <= size < 1e12:
        return f"{value:{sign}.{DIGITS}g}"
    decimals = max(DIGITS - 1 - math.floor(math.log10(size)), 2)
    return f"{value:{sign},.{decimals}f}"
