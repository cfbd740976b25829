"""Events of a CI system: GitHub's events of finished runs, or a plain object that names a task, session, decision or
commit."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import NamedTuple

from sage.orchestrator.upstream_settings import ServeSettings
from sage.upstream.secrets import Secret, secret_of

CONCLUSIONS = {
    "success": 1.0,
    "passed": 1.0,
    "failure": 0.0,
    "failed": 0.0,
}  # all others, such as cancelled or skipped, say nothing of the work
RUNS = ("workflow_run", "check_suite", "check_run")
TRAILER = re.compile(r"^Sage-(Task|Session|Decision):[ \t]*(\S{1,200})[ \t]*$", re.MULTILINE | re.IGNORECASE)
MOST_MESSAGE = 100_000


class CiEventError(ValueError):
    """An event without a conclusion or an id; the message says what is missing or wrong."""


class CiEvent(NamedTuple):
    """A result of CI and the tasks, sessions and decisions that it may be about; a commit counts as a task with its
    hash as id. `quality` is None if the conclusion says nothing of the work."""

    quality: float | None
    tasks: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    decisions: frozenset[str] = frozenset()
    source: str = ""


def webhook_secret(settings: ServeSettings) -> Secret | None:
    """Returns the server's secret for webhooks; None if models.yaml names none."""
    return secret_of("serve.webhook_key", variable_name=settings.webhook_key_env, path=settings.webhook_key_file)


def signature(secret: str, body: bytes) -> str:
    """Returns the signature of a body as GitHub sends it in `x-hub-signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def tenant_secret(secret: str, tenant: str) -> str:
    """Returns the secret for one tenant's deliveries, from which neither the server's nor another tenant's can be
    computed."""
    return hmac.new(secret.encode(), f"ci:{tenant}".encode(), hashlib.sha256).hexdigest()


def event_of(values: dict) -> CiEvent:
    """Returns the event in a webhook's body; raises CiEventError if it lacks a conclusion or an id."""
    for kind in RUNS:
        if isinstance(values.get(kind), dict):
            return github_event(kind, values[kind])
    ids: dict[str, str] = {}
    for name in ("task_id", "session", "decision_id", "commit"):
        if name in values:
            if not isinstance(values[name], str) or not 0 < len(values[name]) <= 200:
                raise CiEventError(f"{name} must be 1 to 200 characters")
            ids[name] = values[name]
    if not ids or "conclusion" not in values:
        raise CiEventError("an event needs a conclusion, and one of task_id, session, decision_id and commit")
    source = values.get("source", "")
    return CiEvent(
        concluded(values["conclusion"]),
        frozenset(ids[name] for name in ("task_id", "commit") if name in ids),
        frozenset([ids["session"]] if "session" in ids else []),
        frozenset([ids["decision_id"]] if "decision_id" in ids else []),
        f"ci: {source[:100]}" if isinstance(source, str) and source else "ci",
    )


def github_event(kind: str, run: dict) -> CiEvent:
    """Returns the event of a GitHub run; the trailers `Sage-Task: ID`, `Sage-Session: ID` and `Sage-Decision: ID` of
    its commit's message name what it is about."""
    suite = run.get("check_suite") if kind == "check_run" else run
    commit = suite.get("head_commit") if isinstance(suite, dict) else None
    message = commit.get("message") if isinstance(commit, dict) else None
    named: dict[str, set[str]] = {"task": set(), "session": set(), "decision": set()}
    for found in TRAILER.finditer(message[:MOST_MESSAGE] if isinstance(message, str) else ""):
        named[found[1].lower()].add(found[2])
    if isinstance(run.get("head_sha"), str) and run["head_sha"]:
        named["task"].add(run["head_sha"][:200])
    name = run.get("name")
    return CiEvent(
        concluded(run.get("conclusion")),
        frozenset(named["task"]),
        frozenset(named["session"]),
        frozenset(named["decision"]),
        f"ci: {name[:100]}" if isinstance(name, str) and name else f"ci: {kind}",
    )


def concluded(conclusion: object) -> float | None:
    return CONCLUSIONS.get(conclusion) if isinstance(conclusion, str) else None
