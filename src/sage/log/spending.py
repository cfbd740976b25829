"""Costs of calls by session and by tenant and day, including the amounts reserved for calls in flight.

Everything is in the log's file and changes in the transaction that logs a decision or an outcome, so no two calls, in
whatever processes, can spend the same dollar.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from typing import NamedTuple

from sage.log.budget_settings import TenantBudget
from sage.log.records import Decision, Outcome
from sage.log.redaction import redact

SCHEMA = """
CREATE TABLE IF NOT EXISTS spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenant_days (
  tenant TEXT NOT NULL, day TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservations (decision_id TEXT PRIMARY KEY, usd REAL NOT NULL) STRICT, WITHOUT ROWID;
"""
SPEND = """INSERT INTO spending SELECT tenant, session, ? FROM decisions WHERE id = ?
  ON CONFLICT (tenant, session) DO UPDATE SET usd = usd + excluded.usd"""
SPEND_ON_DAY = """INSERT INTO tenant_days SELECT tenant, ifnull(date(time, 'unixepoch'), ''), ? FROM decisions WHERE id = ?
  ON CONFLICT (tenant, day) DO UPDATE SET usd = usd + excluded.usd"""
# Before there were days, nobody had a budget per day or month: what was spent then counts for budgets of all time.
SPENT_BEFORE_DAYS = "INSERT INTO tenant_days SELECT tenant, '', total(usd) FROM spending GROUP BY tenant"
RESERVE = "INSERT INTO reservations VALUES (?, ?) ON CONFLICT (decision_id) DO UPDATE SET usd = excluded.usd"
# What was reserved for a decision: for its own model, or for a dearer one that it fell back to.
RESERVED = """ifnull((SELECT usd FROM reservations WHERE decision_id = id),
  CASE WHEN json_valid(record) THEN json_extract(record, '$.expected_cost_usd') END)"""


class Budgets(NamedTuple):
    """The budgets that limit a decision: its session's in USD, and its tenant's; None means no limit."""

    session_usd: float | None = None
    tenant: TenantBudget | None = None


UNLIMITED = Budgets()


class Spent(NamedTuple):
    """USD spent of a decision's budgets by its session and by its tenant; 0 where there is no budget."""

    session_usd: float = 0.0
    tenant_usd: float = 0.0


NOTHING_SPENT = Spent()


def spent(connection: sqlite3.Connection, tenant: str, session: str) -> float:
    """Returns the USD that one session has spent, including what is reserved for calls in flight."""
    names = (redact(tenant), redact(session))
    query = "SELECT total(usd) FROM spending WHERE (tenant, session) IN (VALUES (?, ?), (?, ?))"
    return connection.execute(query, (*names, hidden(names[0]), hidden(*names))).fetchone()[0]


def tenant_spent(connection: sqlite3.Connection, tenant: str, budget: TenantBudget, at: float) -> float:
    """Returns the USD that a tenant has spent in its budget's period that contains `at` (seconds since 1970)."""
    name = redact(tenant)
    query = "SELECT total(usd) FROM tenant_days WHERE tenant IN (?, ?) AND day >= ?"
    return connection.execute(query, (name, hidden(name), budget.first_day(at))).fetchone()[0]


def hide_tenant(connection: sqlite3.Connection, tenant: str) -> None:
    """Replaces the names of a tenant and its sessions by hashes; the amounts stay, so erasing refills no budget."""
    connection.create_function("hidden", -1, hidden, deterministic=True)
    for table, others in {"spending": "hidden(tenant, session)", "tenant_days": "day"}.items():
        connection.execute(
            f"""INSERT INTO {table} SELECT hidden(tenant), {others}, usd FROM {table} WHERE tenant = ?
            ON CONFLICT DO UPDATE SET usd = usd + excluded.usd""",
            (redact(tenant),),
        )
        connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (redact(tenant),))


def hidden(*names: str) -> str:
    """Returns the hash ('sha256:...') that stands for an erased tenant's name, or for that and a session's name."""
    return "sha256:" + hashlib.sha256(json.dumps(names).encode()).hexdigest()


def left(connection: sqlite3.Connection, decision: Decision, budgets: Budgets) -> float:
    """Returns the USD that the budgets of a decision still allow, the smaller of the two; infinity without a budget."""
    amounts = [math.inf]
    if budgets.session_usd is not None:
        amounts.append(budgets.session_usd - spent(connection, decision.tenant, decision.session))
    if budgets.tenant is not None:
        used = tenant_spent(connection, decision.tenant, budgets.tenant, decision.time)
        amounts.append(budgets.tenant.usd - used)
    return min(amounts)


def charged(outcome: Outcome | None, expected_usd: float | None) -> float:
    """Returns the USD that a budget counts for a decision: its reported cost, else the expected cost, else 0."""
    cost = None if outcome is None else outcome.cost_usd
    return (expected_usd or 0.0) if cost is None else cost


def charge(connection: sqlite3.Connection, decision_id: str, before_usd: float, after_usd: float) -> None:
    if before_usd != after_usd:
        connection.execute(SPEND, (after_usd - before_usd, decision_id))
        connection.execute(SPEND_ON_DAY, (after_usd - before_usd, decision_id))
