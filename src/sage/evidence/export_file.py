"""Exported decisions as a JSONL file: a header, then one decision with its outcome a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from sage.evidence.completeness import ExportHeader, HeaderError, begins_header, parse_header
from sage.files import replacing
from sage.log.record_checks import RecordError
from sage.log.records import Decision, Outcome


class RoutingDataError(ValueError):
    """A file of decisions that cannot be learned from; the message names the line and the fix."""


def read_records(path: Path) -> Iterator[tuple[Decision, Outcome | None]]:
    """Reads the records of a JSONL file line by line, without its header; the outcome is None where nobody reported one.

    Raises RoutingDataError, with the line's number, at the first line that is not whole JSON or breaks a rule of
    records.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1 and begins_header(line):
                continue
            where = f"{path}, line {number}"
            try:
                values = json.loads(line.decode("utf-8"), parse_constant=refuse_constant)
            except (json.JSONDecodeError, RecursionError) as error:
                cut = "" if line.endswith(b"\n") else " (the file ends in the middle of it)"
                raise RoutingDataError(f"{where}: not a whole JSON object{cut}: export the file again") from error
            except (RoutingDataError, ValueError) as error:  # not UTF-8, or a number of thousands of digits
                raise RoutingDataError(f"{where}: {error}: export the file again") from error
            if not isinstance(values, dict) or not isinstance(values.get("outcome", ""), dict | None):
                raise RoutingDataError(
                    f"{where}: a line is a decision with an 'outcome': export with `sage log export`"
                )
            try:
                given = values.pop("outcome")
                yield Decision.from_json(values), None if given is None else Outcome.from_json(given)
            except RecordError as error:
                raise RoutingDataError(f"{where}: {error}") from error


def read_header(path: Path) -> ExportHeader | None:
    """Returns the header of an export; None if the file has none. Raises RoutingDataError if it cannot be read."""
    with path.open("rb") as lines:
        line = lines.readline()
    try:
        return parse_header(line) if begins_header(line) else None
    except HeaderError as error:
        raise RoutingDataError(f"{path}, the header in line 1: {error}") from error


def write_records(path: Path, records: Iterable[tuple[Decision, Outcome | None]], header: dict | None = None) -> int:
    """Writes the header, if there is one, and one line per record, complete or not at all; returns the number of records."""
    num_written = 0
    with replacing(path, private=True) as temporary, temporary.open("w", encoding="utf-8") as file:
        if header is not None:
            file.write(json.dumps(header) + "\n")
        for decision, outcome in records:
            line = decision.to_json() | ({} if decision.number is None else {"number": decision.number})
            line["outcome"] = None if outcome is None else outcome.to_json()
            file.write(json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n")
            num_written += 1
    return num_written


def refuse_constant(name: str) -> float:
    raise RoutingDataError(f"{name} is not a number that an outcome can have: leave unknown values out (null)")
