"""The decision log: one SQLite file, append-only, shared by any number of processes and threads.

A call returns once its record is committed: a killed process loses nothing that it was told is logged. (A power cut may
take the last commits, never the file: WAL with synchronous=NORMAL.) Threads that wait for the file together are written
in one transaction.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal, Self, get_args

from sage.log import reports, spending
from sage.log.budget_settings import TenantBudget
from sage.log.database import DatabaseError, Identity, SharedFile, WrongFileError
from sage.log.group_commit import GroupCommit, Waiting
from sage.log.joining import CORRECTED, LOGGED, Joined, join, merge
from sage.log.records import DATA_SOURCES, Decision, Outcome, RecordError
from sage.log.redaction import redact
from sage.log.reports import MOST_REPORTS, Reports, known_outcome
from sage.log.spending import UNLIMITED, Budgets, charge, charged
from sage.log.stored_records import LogError, decode, encode, readable

Status = Literal["joined", "late", "duplicate", "conflict", "corrected", "unknown"]
STATUSES: tuple[str, ...] = get_args(Status)
REFUSED = "refused"  # of a report beyond MOST_REPORTS, which is not logged
LATE_AFTER_S = 24 * 3600.0

NUMBERED = ("decisions", "outcomes")  # whose rows are counted from 1 without a gap, also over erased ones
LAST = "max(ifnull((SELECT max(seq) FROM {0}), 0), ifnull((SELECT max(seq) FROM erased WHERE kind = '{0}'), 0))"

SCHEMA = (
    spending.SCHEMA
    + reports.SCHEMA
    + """
CREATE TABLE IF NOT EXISTS decisions (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, data_source TEXT NOT NULL,
  tenant TEXT NOT NULL, session TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS events (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS erased (
  kind TEXT NOT NULL, seq INTEGER NOT NULL, sha256 TEXT NOT NULL, reason TEXT, kept TEXT, PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS numbers (kind TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
  cascade_id TEXT NOT NULL, number INTEGER NOT NULL, decision_id TEXT NOT NULL, PRIMARY KEY (cascade_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outcomes_by_decision ON outcomes (decision_id);
CREATE TRIGGER IF NOT EXISTS decisions_once BEFORE INSERT ON decisions
  WHEN EXISTS (SELECT 1 FROM decisions WHERE id = NEW.id OR seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER IF NOT EXISTS outcomes_once BEFORE INSERT ON outcomes
  WHEN EXISTS (SELECT 1 FROM outcomes WHERE seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
"""
    + "".join(
        f"INSERT OR IGNORE INTO numbers SELECT '{table}', {LAST.format(table)};\n"
        f"CREATE TRIGGER IF NOT EXISTS {table}_numbered AFTER INSERT ON {table} "
        f"BEGIN UPDATE numbers SET last = max(last, NEW.seq) WHERE kind = '{table}'; END;\n"
        for table in NUMBERED
    )
    + "".join(
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;\n"
        for table in ("decisions", "outcomes", "events", "erased", "steps")
        for verb in ("update", "delete")
    )
)
# Numbers are given in the transaction that writes the row, and never twice: a number without a row was deleted or erased.
NEXT = "(SELECT 1 + last FROM numbers WHERE kind = '{0}')"
PROGRESS = f"SELECT 1 + {LAST.format('decisions')}"  # what is really there, also in a file of an older format
INSERT_DECISION = f"""INSERT INTO decisions (seq, id, time, data_source, tenant, session, record)
  VALUES ({NEXT.format("decisions")}, ?, ?, ?, ?, ?, ?)"""
INSERT_OUTCOME = f"""INSERT INTO outcomes (seq, decision_id, status, record)
  VALUES ({NEXT.format("outcomes")}, ?, ?, ?)"""
INSERT_STEP = "INSERT INTO steps VALUES (?, ?, ?)"
STEP = "SELECT 1 FROM steps WHERE cascade_id = ? AND number = ?"
INSERT_EVENT = "INSERT INTO events (time, kind, record) VALUES (?, ?, ?)"
UNLOGGED = "SELECT total(json_extract(record, '$.decisions')) FROM events WHERE kind = 'unlogged'"
DECIDED = f"""SELECT time, {spending.RESERVED},
  CASE WHEN json_valid(record) THEN json_extract(record, '$.shadow') END
  FROM decisions WHERE id = ?"""
WITH_REPORTS = "decisions d LEFT JOIN outcomes o ON o.decision_id = d.id"
UNWRITABLE = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)  # by one record, and not by the file
FIRST_REPORT = "SELECT status, record FROM outcomes WHERE decision_id = ? ORDER BY seq LIMIT 1"


class OverBudgetError(LogError):
    """A decision that a budget has no room for any more."""


class UnwritableRecordError(Exception):
    """A record because of which a transaction has to be made again without it; `error` is for whoever gave it."""

    def __init__(self, item: Waiting, cause: Exception) -> None:
        decision_id = item.record.decision_id if isinstance(item.record, Outcome) else item.record.id
        sentence = f"{type(item.record).__name__.lower()} {decision_id!r} cannot be written: {cause}"
        self.item = item
        self.error = LogError(sentence) if isinstance(cause, sqlite3.Error) else RecordError(sentence)


class DecisionLog:
    """Decisions and the outcomes that are joined to them by id."""

    def __init__(
        self, path: str | Path, *, late_after_s: float = LATE_AFTER_S, identity: Identity | None = None
    ) -> None:
        """`identity` is that of the file which must be there, if one must."""
        if not isinstance(path, str | Path) or not Path(path).name:
            raise WrongFileError(f"db={path!r} is not the path of a file: give one, such as sage.db")
        self.path = Path(path)
        self.late_after_s = late_after_s
        self.file = SharedFile(self.path, SCHEMA, upgrade, progress=PROGRESS, identity=identity)
        self.commits = GroupCommit(self._commit)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Opens a log, or starts one."""
        log = cls(path)
        log.file.open()
        return log

    def append(self, decision: Decision, *, budgets: Budgets = UNLIMITED) -> None:
        """Logs one decision; it is committed when this returns. One that a budget has no room for is refused."""
        self._write(Waiting(decision, budgets=budgets))

    def reserve(self, decision: Decision, usd: float, *, budgets: Budgets) -> None:
        """Raises what a decision has reserved, before it falls back to a dearer model; refused if a budget has no room."""
        with self.file.transaction() as connection:
            decided = connection.execute(DECIDED, (decision.id,)).fetchone()
            reserved = 0.0 if decided is None else decided[1] or 0.0
            if usd > reserved:
                check_budgets(connection, decision, usd - reserved, budgets)
                connection.execute(spending.RESERVE, (decision.id, usd))
                known = known_outcome(connection, decision.id)
                charge(connection, decision.id, charged(known, reserved), charged(known, usd))

    def append_many(self, decisions: Sequence[Decision]) -> None:
        """Logs many in one transaction: all of them or, if one is refused, none."""
        with self.file.transaction() as connection:
            for decision in decisions:
                insert_decision(connection, decision)

    def add_outcome(self, outcome: Outcome) -> str:
        """Logs a report of what came of a decision; the status says how it was joined, and every report is kept."""
        return self.join(outcome).status

    def join(self, report: Outcome, *, correction: bool = False) -> Joined:
        """Logs a report, also about fields that others have not reported yet; a correction replaces what these said."""
        return self._write(Waiting(report, correction))

    def add_outcomes(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Logs many in one transaction: all of them or, if one is refused, none."""
        with self.file.transaction() as connection:
            return [self._insert_outcome(connection, outcome).status for outcome in outcomes]

    def submit(
        self, record: Decision | Outcome, done: Callable[[Waiting], None], *, budgets: Budgets = UNLIMITED
    ) -> None:
        """Logs a record for somebody who cannot wait, such as an event loop: `done` is called with its result once it is
        committed or refused, in a thread that must not be kept for long."""
        self.commits.submit(Waiting(record, budgets=budgets, done=done))

    def _write(self, item: Waiting) -> Joined:
        self.commits.write(item)
        if isinstance(item.result, ValueError):
            raise item.result
        assert item.result is not None
        return item.result

    def _commit(self, batch: list[Waiting]) -> None:
        """Gives every record a result. One that cannot be written gets an error, and the others are written without it."""
        left, failure = batch, LogError("interrupted before the record was logged: log it again")
        try:
            while left:
                try:
                    with self.file.transaction() as connection:
                        results = [self._insert(connection, item) for item in left]
                except UnwritableRecordError as unwritable:
                    unwritable.item.result = unwritable.error
                    left = [item for item in left if item is not unwritable.item]
                    continue
                for item, result in zip(left, results, strict=True):
                    item.result = result
                left = []
        except DatabaseError as error:
            failure = error
        finally:  # whoever waits is told what became of the record, whatever happened here
            for item in left:
                item.result = failure

    def _insert(self, connection: sqlite3.Connection, item: Waiting) -> Joined | ValueError:
        try:
            if isinstance(item.record, Outcome):
                return self._insert_outcome(connection, item.record, item.correction)
            check_budgets(connection, item.record, item.record.expected_cost_usd or 0.0, item.budgets)
            insert_decision(connection, item.record)
            return LOGGED
        except LogError as error:
            return error
        except (*UNWRITABLE, ValueError, OverflowError) as error:
            raise UnwritableRecordError(item, error) from error

    def _insert_outcome(self, connection: sqlite3.Connection, report: Outcome, correction: bool = False) -> Joined:
        text = encode(report)
        report = decode(Outcome, text, report.decision_id)  # as it will be read, without secrets
        known = Reports.read(connection, report.decision_id)
        before = known.outcome
        if known.num_reports[report.source] >= MOST_REPORTS:
            return Joined(REFUSED, before, before)
        merged = merge(known.known, report, correction=correction)
        found = connection.execute(DECIDED, (report.decision_id,)).fetchone()
        decided, expected, asked = found or (None, None, None)
        if merged.conflicts:
            status = "conflict"
        elif correction and (decided, before) != (None, None):
            status = CORRECTED
        elif decided is None or (report.shadow is not None and not asked):
            status = "unknown"
        elif merged.replaced:
            status = CORRECTED
        elif before is not None and not merged.new:
            status = "duplicate"
        else:  # by the clocks of two machines, which may have stepped in between: a late outcome is joined all the same
            status = "late" if report.time > decided + self.late_after_s else "joined"
        connection.execute(INSERT_OUTCOME, (report.decision_id, status, text))
        known.add(connection, report, merged.known)
        charge(connection, report.decision_id, charged(before, expected), charged(merged.known.outcome, expected))
        return Joined(status, before, merged.known.outcome)

    def add_event(self, kind: str, values: dict) -> None:
        """Logs something about the log itself."""
        with self.file.transaction() as connection:
            connection.execute(INSERT_EVENT, (time.time(), kind, json.dumps(values, allow_nan=False)))

    def decision(self, decision_id: str) -> Decision:
        """One decision by its id."""
        query = "SELECT record FROM decisions WHERE id = ?"
        try:
            with self.file.connection() as connection:
                found = connection.execute(query, (decision_id,)).fetchone()
        except DatabaseError:  # such as a log in a folder that cannot be written
            with self.file.reading() as connection:
                found = connection.execute(query, (decision_id,)).fetchone()
        if found is None:
            raise LogError(f"decision {decision_id!r} is not in {self.path}: check the id and the file")
        return decode(Decision, found[0], decision_id)

    def rows(
        self,
        data_source: str | None = None,
        session: str | None = None,
        since: float | None = None,
        *,
        last: int | None = None,
        unreadable: list[str] | None = None,
    ) -> Iterator[tuple[Decision, Outcome | None]]:
        """Decisions in the order they were logged, up to number `last`, each with what all reports about it say together.

        A record that cannot be read is an error, or a sentence in `unreadable`: a decision is then left out, a report ignored.
        """
        if data_source is not None and data_source not in DATA_SOURCES:
            raise LogError(f"data_source={data_source!r} must be one of {', '.join(DATA_SOURCES)}")
        wanted = {"d.data_source = ?": data_source, "d.session = ?": session, "d.time >= ?": since, "d.seq <= ?": last}
        wanted = {condition: value for condition, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        query = f"SELECT d.seq, d.id, d.record, o.status, o.record FROM {WITH_REPORTS} {where} ORDER BY d.seq, o.seq"
        return self._read(query, tuple(wanted.values()), unreadable)

    def cascade(self, cascade_id: str) -> list[tuple[Decision, Outcome | None]]:
        """The steps of one cascade that are logged, in their order, each with what was reported of it."""
        query = f"""SELECT d.seq, d.id, d.record, o.status, o.record FROM {WITH_REPORTS}
            JOIN steps s ON s.decision_id = d.id WHERE s.cascade_id = ? ORDER BY s.number, o.seq"""
        return list(self._read(query, (cascade_id,), None))

    def _read(
        self, query: str, values: tuple, unreadable: list[str] | None
    ) -> Iterator[tuple[Decision, Outcome | None]]:
        with self.file.reading() as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            for (number, decision_id, record), rows in groupby(
                connection.execute(query, values), key=itemgetter(0, 1, 2)
            ):
                reports = [(status, text) for *_, status, text in rows if status is not None]
                outcomes = [(status, readable(Outcome, text, decision_id, unreadable)) for status, text in reports]
                decision = readable(Decision, record, decision_id, unreadable, number=number)
                if decision is not None:
                    known = join((status, outcome) for status, outcome in outcomes if outcome is not None)
                    yield decision, None if known is None else known.outcome

    def spent(self, tenant: str, session: str) -> float:
        """Returns the cost of a session so far, in USD, with the expected cost of calls that have not reported theirs."""
        with self.file.connection() as connection:
            return spending.spent(connection, tenant, session)

    def tenant_spent(self, tenant: str, budget: TenantBudget, at: float) -> float:
        """Returns the USD that a tenant has spent in the budget period of a time, calls in flight included."""
        with self.file.connection() as connection:
            return spending.tenant_spent(connection, tenant, budget, at)

    def counts(self) -> dict[str, int]:
        """Returns counts of decisions by source, with and without outcome, of outcomes by status, and of unlogged ones."""
        with self.file.reading() as connection:
            sources = dict(connection.execute("SELECT data_source, count(*) FROM decisions GROUP BY 1"))
            statuses = dict(connection.execute("SELECT status, count(*) FROM outcomes GROUP BY 1"))
            unlogged = int(connection.execute(UNLOGGED).fetchone()[0])
            joined = connection.execute(f"SELECT count(DISTINCT o.decision_id) FROM {WITH_REPORTS}").fetchone()[0]
        total = sum(sources.values())
        return (
            {"decisions": total, "with_outcome": joined, "without_outcome": total - joined}
            | {source: sources.get(source, 0) for source in DATA_SOURCES}
            | {status: statuses.get(status, 0) for status in STATUSES}
            | {"unlogged": unlogged}
        )

    def cascade_counts(self) -> dict[str, int]:
        """Returns how many cascades were begun, and of these, how many have not stopped: their process was killed, or is at work."""
        with self.file.reading() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'steps'").fetchone():
                return {"cascades": 0, "unfinished": 0}  # a log of an older format that nobody may write
            begun = connection.execute("SELECT count(DISTINCT cascade_id) FROM steps").fetchone()[0]
            stopped = connection.execute("SELECT count(*) FROM steps WHERE cascade_id = decision_id").fetchone()[0]
        return {"cascades": begun, "unfinished": begun - stopped}

    def damage(self) -> str:
        """Returns SQLite's findings on a damaged file; empty if there are none."""
        with self.file.reading() as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        return "" if found == "ok" else found

    def finish(self) -> None:
        """Returns when all that was submitted is written or refused, and whoever submitted it was told."""
        self.commits.close()

    def close(self) -> None:
        """Writes all that was submitted, and closes the file; the next use opens it again."""
        self.finish()
        self.file.close()


def check_budgets(connection: sqlite3.Connection, decision: Decision, usd: float, budgets: Budgets) -> None:
    if usd > (left := spending.left(connection, decision, budgets)):
        raise OverBudgetError(f"{decision.model} is expected to cost more than the {left:.6g} USD left of the budget")


def insert_decision(connection: sqlite3.Connection, decision: Decision) -> None:
    names = (redact(decision.tenant), redact(decision.session))
    values = (decision.id, decision.time, decision.data_source, *names, encode(decision))
    step = None if decision.cascade is None else (decision.cascade.cascade_id, decision.cascade.number)
    if step is not None and connection.execute(STEP, step).fetchone():
        raise LogError(f"step {step[1]} of cascade {step[0]!r} is logged already: every step is decided once")
    overtook = known_outcome(connection, decision.id)
    if connection.execute(INSERT_DECISION, values).rowcount == 0:
        raise LogError(f"decision {decision.id!r} is logged already: every decision needs an id of its own")
    if step is not None:
        connection.execute(INSERT_STEP, (*step, decision.id))
    charge(connection, decision.id, 0.0, charged(overtook, decision.expected_cost_usd))


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Upgrades a log of an older format to this one.

    - Format 1 joined only the first report of a decision: what later ones say of costs is charged now.
    - Format 2 lacked steps of cascades, format 3 shadows, and format 4 what tenants spent on which day.
    - Format 5 lacked the sources of outcomes. It also lacked what is known of decisions with many reports: the next report
      about each of them writes that.
    - Format 6 lacked the last numbers, which the schema reads from the rows. It also lacked why records were erased, which
      nobody knows any more.
    """
    if not {"reason", "kept"} & {name for _, name, *_ in connection.execute("PRAGMA table_info(erased)")}:
        for column in ("reason", "kept"):
            connection.execute(f"ALTER TABLE erased ADD COLUMN {column} TEXT")
    if version < 5:
        connection.execute(spending.SPENT_BEFORE_DAYS)
    if version != 1:
        return
    several = "SELECT decision_id FROM outcomes GROUP BY 1 HAVING count(*) > 1 OR max(status) = 'unknown'"
    for (decision_id,) in connection.execute(several).fetchall():
        status, text = connection.execute(FIRST_REPORT, (decision_id,)).fetchone()
        with suppress(LogError):
            counted = None if status == "unknown" else decode(Outcome, text, decision_id)
            charge(
                connection, decision_id, charged(counted, None), charged(known_outcome(connection, decision_id), None)
            )
