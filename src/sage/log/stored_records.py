"""Records as the log stores them: JSON without secrets."""

from __future__ import annotations

import json
from typing import TypeVar

from sage.log.records import Decision, Outcome
from sage.log.redaction import redact

R = TypeVar("R", Decision, Outcome)


class LogError(ValueError):
    """Error about a record that cannot be logged or read; the message says which, and how to go on."""


def encode(record: Decision | Outcome) -> str:
    """Returns a record as JSON, with secrets removed from its texts; ids and names of models are kept."""
    values = record.to_json()
    if values.get("prompt"):  # a task may hold anything, and its decision is logged all the same
        values["prompt"] = values["prompt"].encode("utf-8", "replace").decode()
    for name in ("task_id", "category", "tenant", "session", "reason", "prompt"):
        if values.get(name):
            values[name] = redact(values[name])
    for said in (values, values.get("shadow")):
        if isinstance(said, dict) and "verdicts" in said:
            said["verdicts"] = [verdict | {"source": redact(verdict["source"])} for verdict in said["verdicts"]]
        if isinstance(said, dict) and said.get("provenance"):
            said["provenance"] = redact(said["provenance"])
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def readable(cls: type[R], text: str, decision_id: str, unreadable: list[str] | None, **more: int) -> R | None:
    try:
        return decode(cls, text, decision_id, **more)
    except LogError as error:
        if unreadable is None:
            raise
        unreadable.append(str(error))
        return None


def decode(cls: type[R], text: str, decision_id: str, **more: int) -> R:
    """Returns a stored record; `more` are fields that the log keeps beside it. Raises LogError if it cannot be read."""
    try:
        return cls.from_json(json.loads(text) | more)
    except (ValueError, TypeError, RecursionError) as error:
        raise LogError(f"the log's {cls.__name__.lower()} {decision_id} cannot be read: {error}") from error
