"""Erasure and retention: the only way in which rows leave the log, which is append-only otherwise.

The number and the SHA-256 of every erased record stay in the log, and why it was erased. Which tasks are erased may depend
on their outcomes, so of a task's decisions also the probabilities stay: a proof takes these rows at their worst. The log's
digest is computed from the hashes, so it is the same before and after an erasure, and a digest that was noted beside a proof
still identifies its log. Ids of decisions are random, so nobody can guess a record from its hash. Spent amounts stay counted:
erasing refills no budget.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass
from typing import NamedTuple

from sage.log.database import statements
from sage.log.decision_log import INSERT_EVENT, SCHEMA, DecisionLog, LogError
from sage.log.records import Decision
from sage.log.redaction import redact
from sage.log.spending import hide_tenant

HASHED = {"decisions": "record", "outcomes": "status || record"}
KEPT = (
    *("time", "data_source", "tenant", "verdict", "follows", "model", "candidates", "probabilities"),
    *("shadow", "shadow_probabilities", "outcome_probability"),
)  # of decisions that are erased by task
COLUMN = {"decisions": "id", "outcomes": "decision_id"}
FIELD = "CASE WHEN json_valid(record) THEN json_extract(record, '$.{}') END"
OF_DECISION = {
    "task": f"({FIELD.format('task_id')} = :task OR id = :id)",  # a decision without a task is its own
    "tenant": "tenant = :tenant",
    "before": "time < :before",
}
ALONE = f"""SELECT decision_id AS id, {FIELD.format("time")} AS time FROM outcomes
  WHERE decision_id NOT IN (SELECT id FROM decisions)"""
OF_OUTCOME = {"task": "id = :id", "tenant": "FALSE", "before": "time < :before"}  # nobody knows its tenant


@dataclass(frozen=True)
class Digest:
    """A hash of all records up to two row numbers.

    Pass these numbers to `digest` to compute it again when the log has grown.
    """

    decisions: int
    outcomes: int
    sha256: str


class Records(NamedTuple):
    """Two numbers of records: of decisions and of outcomes."""

    decisions: int
    outcomes: int

    def __str__(self) -> str:
        counted = [f"{number} {name if number != 1 else name[:-1]}" for name, number in self._asdict().items()]
        return " and ".join(counted)


@dataclass(frozen=True)
class Erased:
    """The result of an erasure: how many records are gone, and whether the log's files hold no rest of them."""

    records: Records
    complete: bool


def digest(log: DecisionLog, decisions: int | None = None, outcomes: int | None = None) -> Digest:
    """Returns the digest of all records, or of those up to the given row numbers of decisions and outcomes."""
    found, last = hashlib.sha256(), {}
    with log.file.reading() as connection:
        for table, limit in {"decisions": decisions, "outcomes": outcomes}.items():
            last[table] = 0
            for number, text in records(connection, table, limit):
                found.update(f"{table} {number} {text}\n".encode())
                last[table] = number
    return Digest(**last, sha256=found.hexdigest())


def records(connection: sqlite3.Connection, table: str, limit: int | None) -> list[tuple[int, str]]:
    """Returns (row number, SHA-256) for every record of a table up to row `limit` (None: all), in order.

    For an erased record, that is the hash that was noted when it was erased.
    """
    rows = connection.execute(f"SELECT seq, {HASHED[table]} FROM {table}")
    found = {seq: hashlib.sha256(text.encode()).hexdigest() for seq, text in rows}
    found |= dict(connection.execute("SELECT seq, sha256 FROM erased WHERE kind = ?", (table,)))
    return sorted((seq, sha256) for seq, sha256 in found.items() if limit is None or seq <= limit)


def erase(
    log: DecisionLog, *, task: str | None = None, tenant: str | None = None, before: float | None = None
) -> Erased:
    """Erases the decisions that meet all given conditions, with their outcomes, and shrinks the file.

    `before` is in seconds since 1970. An outcome whose decision is not in the log has no tenant: it is erased by its
    own time, or if `task` is the id of its decision. Raises LogError if no condition is given.
    """
    select, values = selection(task, tenant, before)
    reason = "task" if task is not None else "tenant" if tenant is not None else "time"
    with log.file.connection() as connection:
        connection.execute("PRAGMA secure_delete = ON")
    with log.file.transaction() as connection:
        connection.execute("CREATE TEMP TABLE leaving (id TEXT PRIMARY KEY)")
        connection.execute(f"INSERT INTO leaving {select}", values)
        outcomes = remove(connection, "outcomes", reason)
        decisions = remove(connection, "decisions", reason)
        if reason != "task":
            forget_kept(connection, values["tenant"] if tenant is not None else None, before, reason)
        connection.execute("DROP TRIGGER steps_no_delete")
        connection.execute("DELETE FROM steps WHERE decision_id IN (SELECT id FROM leaving)")
        for table in ("reservations", "known_outcomes"):
            connection.execute(f"DELETE FROM {table} WHERE decision_id IN (SELECT id FROM leaving)")
        connection.execute("DROP TABLE leaving")
        if tenant is not None and task is None and before is None:
            hide_tenant(connection, tenant)
        for statement in statements(SCHEMA):  # the triggers that forbid it
            connection.execute(statement)
        counted = json.dumps({"decisions": decisions, "outcomes": outcomes})
        connection.execute(INSERT_EVENT, (time.time(), "erased", counted))
    with log.file.connection() as connection:
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return Erased(Records(decisions, outcomes), not busy)


def count(
    log: DecisionLog, *, task: str | None = None, tenant: str | None = None, before: float | None = None
) -> Records:
    """Returns how many records `erase` would erase for the same conditions; the log is not changed."""
    select, values = selection(task, tenant, before)
    with log.file.reading() as connection:
        numbers = (
            connection.execute(f"SELECT count(*) FROM {table} WHERE {column} IN ({select})", values)
            for table, column in COLUMN.items()
        )
        return Records(*(number.fetchone()[0] for number in numbers))


def selection(task: str | None, tenant: str | None, before: float | None) -> tuple[str, dict]:
    """Returns a query for the ids of decisions to erase, and its parameters.

    Ids of which only outcomes are logged are included. Raises LogError if no condition is given.
    """
    given = {"task": task, "tenant": tenant, "before": before}
    wanted = [name for name, value in given.items() if value is not None]
    if not wanted:
        raise LogError("erasing everything is not possible: give a task, a tenant or a time; or delete the file")
    known, alone = (" AND ".join(condition[name] for name in wanted) for condition in (OF_DECISION, OF_OUTCOME))
    values = given | {"id": task, "task": redact(task or ""), "tenant": redact(tenant or "")}
    return f"SELECT id FROM decisions WHERE {known} UNION SELECT id FROM ({ALONE}) WHERE {alone}", values


def remove(connection: sqlite3.Connection, table: str, reason: str) -> int:
    """Deletes a table's rows whose decision is in the table `leaving`, notes their hashes, and returns their number.

    Of decisions that are erased by task, what a proof needs is kept. Drops the trigger that forbids deletion; the caller
    makes it again.
    """
    leaving = f"FROM {table} WHERE {COLUMN[table]} IN (SELECT id FROM leaving)"
    keeps = reason == "task" and table == "decisions"
    rows = connection.execute(f"SELECT seq, {HASHED[table]} {leaving}").fetchall()
    noted = [
        (table, seq, hashlib.sha256(text.encode()).hexdigest(), reason, kept_of(text) if keeps else None)
        for seq, text in rows
    ]
    connection.executemany("INSERT INTO erased VALUES (?, ?, ?, ?, ?)", noted)
    connection.execute(f"DROP TRIGGER {table}_no_delete")
    connection.execute(f"DELETE {leaving}")
    return len(rows)


def kept_of(record: str) -> str | None:
    """Returns what stays of a decision that is erased by task, as JSON: names of models, probabilities, and whose it was.

    Nothing that describes the task or its text is among it. None if the record cannot be read.
    """
    try:
        values = json.loads(record)
        kept = {name: values[name] for name in KEPT if values.get(name) is not None}
        wanted = Decision.from_json(values).outcome_wanted
    except (ValueError, TypeError, AttributeError):
        return None
    single = not values.get("cascade")
    return json.dumps(kept | {"single": single, "outcome_wanted": wanted}, separators=(",", ":"))


def forget_kept(connection: sqlite3.Connection, tenant: str | None, before: float | None, reason: str) -> None:
    """Erases what was kept of decisions that were erased by task before, and now by tenant or time too.

    Drops the trigger that forbids it; the caller makes it again.
    """
    wanted = {"json_extract(kept, '$.tenant') = ?": tenant, "json_extract(kept, '$.time') < ?": before}
    wanted = {condition: value for condition, value in wanted.items() if value is not None}
    connection.execute("DROP TRIGGER erased_no_update")
    where = " AND ".join(("kept IS NOT NULL", *wanted))
    connection.execute(f"UPDATE erased SET reason = ?, kept = NULL WHERE {where}", (reason, *wanted.values()))
