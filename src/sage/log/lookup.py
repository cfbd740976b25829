"""Which decisions a task, a session or a commit is about."""

from __future__ import annotations

from collections.abc import Collection

from sage.log.decision_log import DecisionLog
from sage.log.redaction import redact

TASK = "CASE WHEN json_valid(record) THEN json_extract(record, '$.task_id') END"


def decision_ids(
    log: DecisionLog,
    tenant: str,
    *,
    since: float,
    tasks: Collection[str] = (),
    sessions: Collection[str] = (),
    decisions: Collection[str] = (),
) -> list[str]:
    """A tenant's decisions since a time that belong to one of the tasks or sessions, or are named, as they were logged."""
    wanted = {TASK: [*map(redact, tasks)], "session": [*map(redact, sessions)], "id": [*decisions]}
    either = " OR ".join(f"{column} IN ({','.join('?' * len(values))})" for column, values in wanted.items())
    query = f"SELECT id FROM decisions WHERE tenant = ? AND time >= ? AND ({either}) ORDER BY seq"
    values = (redact(tenant), since, *(value for values in wanted.values() for value in values))
    with log.file.reading() as connection:
        return [decision_id for (decision_id,) in connection.execute(query, values)]


def is_accounted(log: DecisionLog, decision_id: str) -> bool:
    """Whether the log says how a decision's call ended: how long it took, or that nobody knows."""
    query = """SELECT 1 FROM outcomes WHERE decision_id = ? AND json_valid(record) AND
      (json_extract(record, '$.latency_s') IS NOT NULL OR json_extract(record, '$.timed_out')) LIMIT 1"""
    with log.file.reading() as connection:
        return connection.execute(query, (decision_id,)).fetchone() is not None
