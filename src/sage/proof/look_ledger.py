"""The ledger of looks at policies' gains, kept because an interval for one look does not hold for several."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sage.evidence.objective import DEFAULT
from sage.log.database import SharedFile
from sage.proof.evaluation import OfflineEvaluation
from sage.proof.look_plan import PLANNED, LookPlan, LookPlanError

SCHEMA = """
CREATE TABLE IF NOT EXISTS looks (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, policy TEXT NOT NULL, policy_version TEXT NOT NULL, question TEXT NOT NULL,
  rows INTEGER NOT NULL, method TEXT NOT NULL, value REAL, low REAL, UNIQUE (policy, policy_version, question)
) STRICT;
CREATE TABLE IF NOT EXISTS look_plans (
  policy TEXT NOT NULL, policy_version TEXT NOT NULL, time REAL NOT NULL, final_rows INTEGER NOT NULL, terms TEXT NOT NULL,
  PRIMARY KEY (policy, policy_version)
) STRICT;
"""
ADD = """INSERT INTO looks (time, policy, policy_version, question, rows, method, value, low)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
COUNT = "SELECT count(*) FROM looks WHERE policy = ? AND policy_version = ?"
PLAN = "SELECT final_rows, terms FROM look_plans WHERE policy = ? AND policy_version = ?"
ADD_PLAN = "INSERT INTO look_plans (policy, policy_version, time, final_rows, terms) VALUES (?, ?, ?, ?, ?)"
PLANNED_LOOKS = "SELECT question, rows FROM looks WHERE policy = ? AND policy_version = ? AND method = ? ORDER BY seq"
WHOLE = " about the whole log, with all the rows of the looks before"
Name = tuple[str, str]  # of a policy, and its version


def enter_look(path: Path, found: OfflineEvaluation) -> int:
    """Writes a look to the file and returns the number of different looks at this policy.

    The same question (data, incumbent, floor, seed and objective) again is not another look. The first planned look fixes
    its plan. Raises LookPlanError, and writes nothing, if the look does not fit the plan of the policy.
    """
    other = [] if found.objective == DEFAULT else [found.objective.name]
    question = json.dumps([found.data_sha256, found.incumbent_version, found.floor, found.seed, *other])
    low = None if (bound := found.bound) is None else bound.low
    with closing(SharedFile(path, SCHEMA)) as file, file.transaction() as connection:
        name = (found.policy, found.policy_version)
        enter_plan(connection, found)
        values = (time.time(), *name, question, found.num_rows, found.method, found.report.value, low)
        connection.execute(ADD, values)
        return connection.execute(COUNT, name).fetchone()[0]


def enter_plan(connection: sqlite3.Connection, found: OfflineEvaluation) -> None:
    """Writes the plan of a first planned look; raises LookPlanError if a look does not fit the plan that is there."""
    name, planned = (found.policy, found.policy_version), connection.execute(PLAN, named(found)).fetchone()
    if found.plan is None:
        if planned is not None:  # it was written while this look was being taken
            raise LookPlanError(f"the looks at {' '.join(name)} are planned, final_rows={planned[0]:,}: judge it again")
        return
    terms = {"incumbent": found.incumbent_version, "floor": found.floor, "seed": found.seed}
    terms |= {"objective": found.objective.name, "selection": found.plan.selection, "first row": found.first_row}
    if planned is None:
        connection.execute(ADD_PLAN, (*name, time.time(), found.plan.final_rows, json.dumps(terms)))
        return
    for term, value in json.loads(planned[1]).items():
        if terms[term] != value:
            raise LookPlanError(
                f"{term}={terms[term]!r} is not what the looks at {' '.join(name)} were planned with ({value!r}): ask the same "
                f"question at every look{WHOLE if term == 'first row' else ''}, or train the policy again"
            )
    if found.plan.earlier != earlier_rows(connection, name, found.data_sha256):
        raise LookPlanError(f"another look at {' '.join(name)} was taken at the same time: judge it again")


def named(found: OfflineEvaluation) -> Name:
    return found.policy, found.policy_version


def read_plan(path: Path, name: Name, final_rows: int | None, data_sha256: str) -> LookPlan | None:
    """Returns the plan that a look at this policy belongs to, or None if no looks are planned.

    The plan that was fixed at the first look goes on; without one, `final_rows` makes it. Looks at other data count as
    earlier ones. Raises LookPlanError if `final_rows` is another number than was planned, or comes after unplanned looks.
    """
    with closing(SharedFile(path, SCHEMA)) as file, file.transaction() as connection:
        planned = connection.execute(PLAN, name).fetchone()
        looks = connection.execute(COUNT, name).fetchone()[0]
        earlier = earlier_rows(connection, name, data_sha256)
    if planned is None and final_rows is None:
        return None
    if planned is None and looks:
        raise LookPlanError(
            f"final_rows={final_rows}: {' '.join(name)} has been looked at before ({looks} looks), and a plan is made before the "
            "first look: judge it with --interval anytime, or train it again"
        )
    if planned is not None and final_rows not in (None, planned[0]):
        raise LookPlanError(
            f"final_rows={final_rows} is not the plan of {' '.join(name)}: {planned[0]:,} was fixed at its first look; leave "
            "--final-rows out, or train the policy again"
        )
    wanted = final_rows if planned is None else planned[0]
    assert wanted is not None
    return LookPlan(final_rows=wanted, earlier=earlier)


def earlier_rows(connection: sqlite3.Connection, name: Name, data_sha256: str) -> tuple[int, ...]:
    """Returns the rows of the planned looks at other data than these, in their order."""
    found = connection.execute(PLANNED_LOOKS, (*name, PLANNED)).fetchall()
    return tuple(rows for question, rows in found if json.loads(question)[0] != data_sha256)
