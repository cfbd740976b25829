"""The ledger of looks at policies' gains, kept because an interval for one look does not hold for several."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

from sage.evidence.objective import DEFAULT
from sage.log.database import SharedFile
from sage.proof.evaluation import OfflineEvaluation

SCHEMA = """
CREATE TABLE IF NOT EXISTS looks (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, policy TEXT NOT NULL, policy_version TEXT NOT NULL, question TEXT NOT NULL,
  rows INTEGER NOT NULL, method TEXT NOT NULL, value REAL, low REAL, UNIQUE (policy, policy_version, question)
) STRICT;
"""
ADD = """INSERT INTO looks (time, policy, policy_version, question, rows, method, value, low)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
COUNT = "SELECT count(*) FROM looks WHERE policy = ? AND policy_version = ?"


def enter_look(path: Path, found: OfflineEvaluation) -> int:
    """Writes a look to the file and returns the number of different looks at this policy.

    The same question (data, incumbent, floor, seed and objective) again is not another look.
    """
    other = [] if found.objective == DEFAULT else [found.objective.name]
    question = json.dumps([found.data_sha256, found.incumbent_version, found.floor, found.seed, *other])
    low = None if (bound := found.bound) is None else bound.low
    with closing(SharedFile(path, SCHEMA)) as file, file.transaction() as connection:
        name = (found.policy, found.policy_version)
        values = (time.time(), *name, question, found.num_rows, found.method, found.report.value, low)
        connection.execute(ADD, values)
        return connection.execute(COUNT, name).fetchone()[0]
