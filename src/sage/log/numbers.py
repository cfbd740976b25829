"""Numbers of decisions: every one that a log has given, with what is there now, or why it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from sage.log.decision_log import DecisionLog

FIELD = "CASE WHEN json_valid(record) THEN json_extract(record, '$.{}') END"
ROWS = f"""SELECT seq, time, data_source, tenant, session, {FIELD.format("verdict")}, {FIELD.format("cascade")} IS NOT NULL
  FROM decisions WHERE seq <= ? ORDER BY seq"""
ERASED = "SELECT seq, reason, kept FROM erased WHERE kind = 'decisions' AND seq <= ? ORDER BY seq"
REPORTS = """SELECT (SELECT last FROM numbers WHERE kind = 'outcomes') - (SELECT count(*) FROM outcomes)
  - (SELECT count(*) FROM erased WHERE kind = 'outcomes')"""


class NumberedRow(NamedTuple):
    """The facts that a log has about one number: columns of the decision, or what was kept when it was erased."""

    number: int
    time: float | None = None
    data_source: str | None = None
    tenant: str | None = None
    session: str | None = None
    verdict: str | None = None
    is_step: bool = False  # of a cascade
    erased: str | None = None  # why: 'task', 'tenant' or 'time'; '' if an older sage did not note it
    kept: dict | None = None  # of a decision that was erased by task


def last_number(log: DecisionLog) -> int:
    """Returns the last number that was given to a decision; 0 for an empty log."""
    with log.file.reading() as connection:
        return connection.execute("SELECT last FROM numbers WHERE kind = 'decisions'").fetchone()[0]


def reports_gone(log: DecisionLog) -> int:
    """Returns how many reports about decisions are neither in the log nor erased from it by sage."""
    with log.file.reading() as connection:
        return max(connection.execute(REPORTS).fetchone()[0], 0)


def numbered_rows(log: DecisionLog, last: int) -> Iterator[NumberedRow]:
    """Yields the decisions that are in the log up to number `last`, then those that sage erased from it."""
    with log.file.reading() as connection:
        connection.execute("BEGIN")  # one state of the file for both
        for columns in connection.execute(ROWS, (last,)):
            yield NumberedRow(*columns)
        for number, reason, text in connection.execute(ERASED, (last,)):
            kept = None if text is None else json.loads(text)
            known = (
                {} if kept is None else {name: kept.get(name) for name in ("time", "data_source", "tenant", "verdict")}
            )
            is_step = kept is not None and not kept["single"]
            yield NumberedRow(number, **known, is_step=is_step, erased=reason or "", kept=kept)
