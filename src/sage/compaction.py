"""Erasure and retention: the one way in which rows leave the log, which is append-only otherwise.

Of every record that is erased, its number and the sha256 of its content stay. The log's digest is computed from these, so it is
the same before and after: whoever noted it beside a proof can still show that the proof's log was this one. Ids of
decisions are random, so that nobody can find a record by guessing what its hash is of.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass

from sage.database import statements
from sage.decision_log import INSERT_EVENT, SCHEMA, DecisionLog, LogError
from sage.redaction import redact

HASHED = {"decisions": "record", "outcomes": "status || record"}
TASK = "(CASE WHEN json_valid(record) THEN json_extract(record, '$.task_id') END = ? OR id = ?)"


@dataclass(frozen=True)
class Digest:
    """A hash of all records up to two numbers; give these to compute it again when the log has grown."""

    decisions: int
    outcomes: int
    sha256: str


@dataclass(frozen=True)
class Erased:
    """How many records are gone, and whether nothing of them is left in the log's files."""

    decisions: int
    outcomes: int
    complete: bool


def digest(log: DecisionLog, decisions: int | None = None, outcomes: int | None = None) -> Digest:
    """Of all records, or up to the given numbers."""
    found, last = hashlib.sha256(), {}
    with log.file.reading() as connection:
        for table, limit in {"decisions": decisions, "outcomes": outcomes}.items():
            last[table] = 0
            for number, text in records(connection, table, limit):
                found.update(f"{table} {number} {text}\n".encode())
                last[table] = number
    return Digest(**last, sha256=found.hexdigest())


def records(connection: sqlite3.Connection, table: str, limit: int | None) -> list[tuple[int, str]]:
    """The number and sha256 of every record, of erased ones as noted."""
    rows = connection.execute(f"SELECT seq, {HASHED[table]} FROM {table}")
    found = {seq: hashlib.sha256(text.encode()).hexdigest() for seq, text in rows}
    found |= dict(connection.execute("SELECT seq, sha256 FROM erased WHERE kind = ?", (table,)))
    return sorted((seq, sha256) for seq, sha256 in found.items() if limit is None or seq <= limit)


def erase(
    log: DecisionLog, *, task: str | None = None, tenant: str | None = None, before: float | None = None
) -> Erased:
    """Erases the decisions that all conditions hold for, with their outcomes, and gives the space back."""
    condition, values = selection(task, tenant, before)
    with log.file.connection() as connection:
        connection.execute("PRAGMA secure_delete = ON")
    with log.file.transaction() as connection:
        chosen = connection.execute(f"SELECT seq, id FROM decisions WHERE {condition}", values).fetchall()
        connection.execute("CREATE TEMP TABLE leaving (id TEXT PRIMARY KEY)")
        connection.executemany("INSERT INTO leaving VALUES (?)", [(decision_id,) for _, decision_id in chosen])
        outcomes = remove(connection, "outcomes", "decision_id")
        decisions = remove(connection, "decisions", "id")
        connection.execute("DROP TRIGGER steps_no_delete")
        connection.execute("DELETE FROM steps WHERE decision_id IN (SELECT id FROM leaving)")
        connection.execute("DROP TABLE leaving")
        if tenant is not None and task is None and before is None:
            connection.execute("DELETE FROM spending WHERE tenant = ?", (redact(tenant),))
        for statement in statements(SCHEMA):  # the triggers that forbid it
            connection.execute(statement)
        counted = json.dumps({"decisions": decisions, "outcomes": outcomes})
        connection.execute(INSERT_EVENT, (time.time(), "erased", counted))
    with log.file.connection() as connection:
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return Erased(decisions, outcomes, not busy)


def count(log: DecisionLog, *, task: str | None = None, tenant: str | None = None, before: float | None = None) -> int:
    """How many decisions `erase` would take."""
    condition, values = selection(task, tenant, before)
    with log.file.reading() as connection:
        return connection.execute(f"SELECT count(*) FROM decisions WHERE {condition}", values).fetchone()[0]


def selection(task: str | None, tenant: str | None, before: float | None) -> tuple[str, tuple]:
    wanted: list[tuple[str, tuple]] = []
    if task is not None:
        wanted.append((TASK, (redact(task), task)))  # a decision without a task is its own
    if tenant is not None:
        wanted.append(("tenant = ?", (redact(tenant),)))
    if before is not None:
        wanted.append(("time < ?", (before,)))
    if not wanted:
        raise LogError("erasing everything is not possible: give a task, a tenant or a time; or delete the file")
    return " AND ".join(text for text, _ in wanted), tuple(value for _, values in wanted for value in values)


def remove(connection: sqlite3.Connection, table: str, column: str) -> int:
    """Deletes the rows of decisions that leave, and notes their hashes."""
    leaving = f"FROM {table} WHERE {column} IN (SELECT id FROM leaving)"
    rows = connection.execute(f"SELECT seq, {HASHED[table]} {leaving}").fetchall()
    noted = [(table, seq, hashlib.sha256(text.encode()).hexdigest()) for seq, text in rows]
    connection.executemany("INSERT INTO erased VALUES (?, ?, ?)", noted)
    connection.execute(f"DROP TRIGGER {table}_no_delete")
    connection.execute(f"DELETE {leaving}")
    return len(rows)
