"""Numbers, durations and sizes as short text for people."""

from __future__ import annotations

import math

SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: object) -> str:
    """Returns a number with four significant digits and commas between thousands; "-" for what is no finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def tick(value: float) -> str:
    """Returns the number of an axis, such as 50k or 0.02."""
    for size, suffix in SUFFIXES:
        if abs(value) >= 10_000 and abs(value) >= size:
            return f"{value / size:.6g}{suffix}"
    return f"{value:.6g}"


def duration(seconds: object) -> str:
    """Returns a time as text, such as 15.7 s, 3 min 20 s or 2 h 5 min; "-" for what is no finite number."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not math.isfinite(seconds):
        return "-"
    whole = round(seconds)
    if whole < 100:
        return f"{seconds:.1f} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600:,} h {whole % 3_600 // 60} min"


def size(num_bytes: int) -> str:
    """Returns a number of bytes as text, such as 150 kB."""
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e6 else f"{num_bytes / 1e3:.0f} kB"


def shortened(text: str, most: int) -> str:
    """Returns text of at most so many letters; what is left out is in the middle, as ends tell things apart."""
    head = most // 2
    return text if len(text) <= most else f"{text[:head]}\u2026{text[head + 1 - most :]}"


def plural(count: int, noun: str) -> str:
    """Returns a count with its noun, such as "1 run" or "3 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
