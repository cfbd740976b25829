"""Values of arguments that several commands take."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sage.log.record_checks import JUDGES

if TYPE_CHECKING:
    from sage.evidence.selection import Selection
    from sage.log.decision_log import DecisionLog

NO_LOG = "give --db, or start one with `sage serve` or `sage lab collect-synth`"


def add_selection(parser: ArgumentParser) -> None:
    """Adds --source and --tenant, which may be given several times."""
    parser.add_argument(
        "--source",
        action="append",
        choices=JUDGES,
        default=[],
        help="only outcomes that this source judged count, others are missing; what sage measured itself always counts",
    )
    parser.add_argument("--tenant", action="append", default=[], help="only this tenant's rows")


def selection_of(arguments: Namespace) -> Selection:
    from sage.evidence.selection import Selection

    return Selection(sources=tuple(arguments.source), tenants=tuple(arguments.tenant))


def open_log(path: str | Path, hint: str = "give it with --db") -> DecisionLog:
    """Opens a log that is there; raises a `ValueError` with the hint if it is not."""
    from sage.log.decision_log import DecisionLog

    if not Path(path).is_file():
        raise ValueError(f"{path}: there is no such log: {hint}")
    return DecisionLog(path)


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


def say(arguments: Namespace, values: dict) -> None:
    """Prints values: one per line or, with `--json`, as one object."""
    if arguments.json:
        print(json.dumps(values))
        return
    for name, value in values.items():
        if isinstance(value, dict):
            value = [f"{number} {key}" for key, number in value.items()]
        text = ", ".join(value) if isinstance(value, list) else str(value)
        if text:
            print(f"{name.replace('_', ' ')}: {text}")
