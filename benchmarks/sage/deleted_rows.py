"""What the gate does when rows were deleted from a log: those that speak most against the candidate, on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/deleted_rows.py --data DIR --processes 2

Logs of 20,000 rows, static tables (`random`) and candidates are drawn as in gate.py. From each log the 1 to 50 rows are deleted whose
doubly robust terms are the smallest. "Before" is a gate that does not know of them; "after" knows how many numbers of the log have no
row, as the header of an export says, and takes each at its worst. Half of the worse candidates have a true gain of -.3 to 0 points,
the others any gain of at most 0; better ones gain more than 2 points.

Wanted, after: of the worse candidates none is promoted by the default (anytime) interval, and none by the fixed-n interval that
would not be promoted on the whole log, where it errs in up to 2.5 % of draws by design. Exits with 1 if not. No setting is chosen
on these tables. One file per table in results/deleted_rows; those that are there are not computed
again. near_null.py says what --packed is.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from gate import EPSILON
from near_null import WORLDS, added, conclude, world_parser, world_pool
from pools import FILES
from quick_gate import Found, Log, check, draw, gains, judge, predict

from sage.files import write_json

OUT = Path(__file__).parent / "results" / "deleted_rows"
DELETED = (1, 2, 5, 10, 16, 50)
KINDS = {"near the null": (-0.003, 0.0), "worse": (-1.0, 0.0), "better": (0.02, 1.0)}
METHODS = ("t", "anytime")
CHUNK = 10  # draws that a process makes at a time


def without_worst(log: Log, number: int) -> Log:
    """The log without the rows that speak most against the candidate."""
    rest, everything = EPSILON / log.size, np.ones(len(log.action), bool)
    chance = np.where(log.action == log.static, 1 - EPSILON + rest, rest)
    cluster = np.unique(log.cluster, return_inverse=True)[1]
    terms = gains(log, chance, everything, predict(log, cluster, everything)[0])
    kept = np.sort(np.argsort(terms, kind="stable")[number:])
    return Log(*(column[kept] for column in log[:6]), *log[6:])


def count(found: Found, whole: Found, counts: dict[str, int], name: str) -> None:
    for method in METHODS:
        counts[f"{name} {method}"] += found.promoted(method)
        counts[f"{name} {method} by the deletion"] += found.promoted(method) and not whole.promoted(method)


def delete(kind: str, name: str, draws: range) -> list[dict]:
    """Counts of promotions among some draws of one kind of candidates, a dict for each number of deleted rows."""
    world, index, place = WORLDS[kind], list(FILES).index(kind), list(KINDS).index(name)
    names = [
        f"{when} {method}{by}" for when in ("before", "after") for method in METHODS for by in ("", " by the deletion")
    ]
    counts = {number: dict.fromkeys(names, 0) for number in (0, *DELETED)}
    for at in draws:
        log = draw(world, (45, index, place, at), *KINDS[name])
        whole = judge(log)
        for when in ("before", "after"):
            count(whole, whole, counts[0], when)
        for number in DELETED:
            left = without_worst(log, number)
            if at == 0:
                check(left, absent=number)
            count(judge(left), whole, counts[number], "before")
            count(judge(left, absent=number), whole, counts[number], "after")
    return [{"candidates": name, "draws": len(draws), "deleted": number} | found for number, found in counts.items()]


def run(kind: str, draws: int, pool: ProcessPoolExecutor) -> dict:
    started, rows = time.perf_counter(), []
    parts = [range(at, min(at + CHUNK, draws)) for at in range(0, draws, CHUNK)]
    futures = {name: [pool.submit(delete, kind, name, part) for part in parts] for name in KINDS}
    for found in futures.values():
        rows += added([part.result() for part in found])
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return {"table": kind, "rows": rows, "seconds": round(time.perf_counter() - started, 1), "versions": versions}


def failures(result: dict) -> list[str]:
    found = []
    for row in result["rows"]:
        if row["candidates"] == "better" or not row["deleted"]:
            continue
        name = f"{result['table']}, {row['deleted']} deleted, {row['candidates']}"
        found += [f"{name}: {key} {row[key]}" for key in ("after anytime", "after t by the deletion") if row[key]]
    return found


def main() -> int:
    parser = world_parser(__doc__, OUT)
    parser.add_argument("--draws", type=int, default=100, help="per table and kind of candidate")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    arguments = parser.parse_args()
    failed = []
    with world_pool(arguments) as pool:
        for kind in arguments.tables:
            path = arguments.out / f"{kind}.json"
            if not path.exists():
                write_json(path, run(kind, arguments.draws, pool))
            result = json.loads(path.read_text())
            for row in result["rows"]:
                print(kind, *(f"{key}={value}" for key, value in row.items()), flush=True)
            failed += failures(result)
    return conclude(failed)


if __name__ == "__main__":
    sys.exit(main())
