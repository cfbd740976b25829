"""The joined outcome of all reports about a decision, read in a time that does not grow with their number.

The log keeps every report. After every few reports about a decision, their joined outcome is stored beside them, so
that only later reports have to be read.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from sage.log.joining import CORRECTED, UNSAID, Known, merge
from sage.log.records import Outcome
from sage.log.stored_records import LogError, decode

MOST_REPORTS = 100  # about one decision, from one source: a client leaves room for CI
STORED_AFTER = 8  # reports that are read one by one

SCHEMA = """
CREATE TABLE IF NOT EXISTS known_outcomes (
  decision_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, record TEXT NOT NULL
) STRICT;
"""
STORED = "SELECT seq, record FROM known_outcomes WHERE decision_id = ?"
STORE = "INSERT OR REPLACE INTO known_outcomes VALUES (?, (SELECT max(seq) FROM outcomes WHERE decision_id = ?), ?)"
LATER = "SELECT status, record FROM outcomes WHERE decision_id = ? AND seq > ? ORDER BY seq"


@dataclass
class Reports:
    """The reports about one decision: their joined outcome, and their numbers by source."""

    decision_id: str
    known: Known | None
    num_reports: Counter[str]  # by source
    num_later: int  # than what is stored

    @property
    def outcome(self) -> Outcome | None:
        return None if self.known is None else self.known.outcome

    @classmethod
    def read(cls, connection: sqlite3.Connection, decision_id: str) -> Self:
        """Reads the reports about a decision from the log; a report that cannot be decoded is skipped."""
        seq, found = 0, cls(decision_id, None, Counter(), 0)
        stored = connection.execute(STORED, (decision_id,)).fetchone()
        if stored is not None:
            with suppress(ValueError, TypeError, KeyError, AttributeError):  # damaged: all reports are read again
                values = json.loads(stored[1])
                found = cls(decision_id, known_from(values["known"]), Counter(values["reports"]), 0)
                seq = stored[0]
        for status, text in connection.execute(LATER, (decision_id, seq)):
            found.num_later += 1
            with suppress(LogError):
                report = decode(Outcome, text, decision_id)
                found.known = merge(found.known, report, correction=status == CORRECTED).known
                found.num_reports[report.source] += 1
        return found

    def add(self, connection: sqlite3.Connection, report: Outcome, known: Known) -> None:
        """Counts a report that was just logged, and replaces the joined outcome by `known`, which includes it.

        After every few reports, writes the joined outcome to the log, so that fewer have to be read.
        """
        self.known = known
        self.num_reports[report.source] += 1
        self.num_later += 1
        if self.num_later >= STORED_AFTER:
            text = json.dumps({"known": to_json(known), "reports": self.num_reports}, ensure_ascii=False)
            connection.execute(STORE, (self.decision_id, self.decision_id, text))
            self.num_later = 0


def known_outcome(connection: sqlite3.Connection, decision_id: str) -> Outcome | None:
    return Reports.read(connection, decision_id).outcome


def to_json(known: Known) -> dict:
    outcome = {name: value for name, value in known.outcome.to_json().items() if UNSAID.get(name, value) != value}
    outcome |= {"source": known.outcome.source, "schema": known.outcome.schema}
    outcome |= {name: getattr(known.outcome, name) for name in ("decision_id", "time")}
    outcome.pop("shadow", None)
    shadow = None if known.shadow is None else to_json(known.shadow)
    return {"outcome": outcome, "sources": dict(known.sources), "shadow": shadow}


def known_from(values: dict) -> Known:
    shadow = None if values["shadow"] is None else known_from(values["shadow"])
    outcome = Outcome.from_json(values["outcome"] | ({} if shadow is None else {"shadow": shadow.outcome.to_json()}))
    return Known(outcome, values["sources"], shadow)
