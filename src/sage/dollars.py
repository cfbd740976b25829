"""Dollar amounts as text: as exact for calls of a millionth of a dollar as for those of a hundred."""

from __future__ import annotations

import math

DIGITS = 4  # that count


def in_usd(value: float, sign: str = "") -> str:
    """Returns the amount with four digits that count and at least cents; `sign="+"` shows the sign of increases, too."""
    size = abs(value)
    if value == 0 or not 1e-6 <= size < 1e12:
        return f"{value:{sign}.{DIGITS}g}"
    decimals = max(DIGITS - 1 - math.floor(math.log10(size)), 2)
    return f"{value:{sign},.{decimals}f}"
