"""Search for the decisions of tasks and sessions, and for the end of a call."""

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
    """Returns the ids of a tenant's decisions since `since` (seconds since 1970), in the order of the log.

    A decision is included if its task, session or id is among those given.
    """
    wanted = {TASK: [*map(redact, tasks)], "session": [*map(redact, sessions)], "id": [*decisions]}
    either = " OR ".join(f"{column} IN ({','.join('?' * len(values))})" for column, values in wanted.items())
    query = f"SELECT id FROM decisions WHERE tenant = ? AND time >= ? AND ({either}) ORDER BY seq"
    values = (redact(tenant), since, *(value for values in wanted.values() for value in values))
    with log.file.reading() as connection:
        return [decision_id for (decision_id,) in connection.execute(query, values)]


def is_accounted(log: DecisionLog, decision_id: str) -> bool:
    """Returns True if the end of a decision's call is known: an outcome in the log has its latency or a time-out."""
    query = """SELECT 1 FROM outcomes WHERE decision_id = ? AND json_valid(record) AND
      (json_extract(record, '$.latency_s') IS NOT NULL OR json_extract(record, '$.timed_out')) LIMIT 1"""
    with log.file.reading() as connection:
        return connection.execute(query, (decision_id,)).fetchone() is not None
