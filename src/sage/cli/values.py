"""Values of arguments that several commands take."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from datetime import UTC, datetime


def seed(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"{text!r} must be a whole number that is not negative")
    return int(text)


def seconds(text: str) -> float:
    """Seconds since 1970 from a number or an ISO date; a time without a zone is UTC."""
    sentence = f"{text!r} is neither seconds since 1970 nor a date such as 2026-01-31"
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(number):
            raise ArgumentTypeError(sentence)
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(sentence) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
