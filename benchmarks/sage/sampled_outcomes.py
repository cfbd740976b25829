"""What the gate proves where only a share of the outcomes is wanted (`outcomes: {sample: 0.2}`), on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/sampled_outcomes.py --data DIR --processes 2

Logs, static tables (`random`) and candidates are drawn as in gate.py. Of every log's decisions a fifth is drawn to have an
outcome; the gate weights these by 1 / .2 and uses the contexts of all rows. Parts:

- power: candidates that are more than 2 points better; 20,000 rows of which a fifth has an outcome, beside as many rows as that with
  all outcomes (`complete`), and beside the same with 1 % of the wanted outcomes missing (worst case);
- null: candidates that are 0 to .3 points worse, after 20,000 and 5,000 rows of which a fifth has an outcome;
  "All that was reported" stands beside it: a proxy has also reported the failures of rows that were not drawn, of the models that
  the candidate gives up, and a gate takes all these rows as its log.

Wanted: power at least .8 of that of complete rows, both intervals; false promotion at most .0365 in every cell. Exits with 1 if
not. No setting is chosen on these tables. One file per table in results/sampled_outcomes; those that are there are not computed
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
from gate import ROWS
from near_null import WORLDS, added, conclude, world_parser, world_pool
from pools import FILES
from quick_gate import Log, check, draw, judge

from sage.files import write_json

OUT = Path(__file__).parent / "results" / "sampled_outcomes"
RATE, MISSING = 0.2, 0.01
NEAR, CLEAR = (-0.003, 0.0), (0.02, 1.0)
LIMIT, LEAST_POWER = 0.0365, 0.8
METHODS = ("t", "anytime")
CHUNK = 20  # draws that a process makes at a time


def reported_alone(log: Log, sampled: np.ndarray) -> Log:
    """The rows that somebody reported, where the proxy reports failures too: no sample of anything."""
    failed = (log.reward < sum(log.bounds) / 2) & (log.action == log.static) & (log.candidate != log.static)
    kept = sampled | failed
    return Log(*(column[kept] for column in log[:6]), *log[6:])


def power(kind: str, draws: range) -> list[dict]:
    world, index = WORLDS[kind], list(FILES).index(kind)
    names = ("sampled", "sampled, some missing", "complete")
    counts = {name: dict.fromkeys((*METHODS, "refused"), 0) for name in names}
    for at in draws:
        seed = (46, index, at)
        log, rng = draw(world, seed, *CLEAR), np.random.default_rng((*seed, 1))
        sampled, there = rng.random(ROWS) < RATE, rng.random(ROWS) >= MISSING
        if at == 0:
            check(log, sampled=sampled, rate=RATE)
            check(log, there, sampled=sampled, rate=RATE)
        found = {
            "sampled": judge(log, sampled=sampled, rate=RATE),
            "sampled, some missing": judge(log, there, sampled=sampled, rate=RATE),
            "complete": judge(log.first(round(RATE * ROWS))),
        }
        for name, one in found.items():
            counts[name]["refused"] += one.refused or one.gone
            for method in METHODS:
                counts[name][method] += one.promoted(method)
    return [{"part": "power", "rows": ROWS, "outcomes": name, "draws": len(draws)} | of for name, of in counts.items()]


def null(kind: str, draws: range, rows: int) -> list[dict]:
    world, index = WORLDS[kind], list(FILES).index(kind)
    counts = {name: dict.fromkeys((*METHODS, "refused", "missed"), 0) for name in ("sampled", "all that was reported")}
    for at in draws:
        seed = (47, index, rows, at)
        log = draw(world, seed, *NEAR).first(rows)
        sampled = np.random.default_rng((*seed, 1)).random(rows) < RATE
        found = {"sampled": judge(log, sampled=sampled, rate=RATE)}
        if rows == ROWS:
            found["all that was reported"] = judge(reported_alone(log, sampled))
        for name, one in found.items():
            counts[name]["refused"] += one.refused or one.gone
            counts[name]["missed"] += not (one.refused or one.gone) and one.low() > log.gain
            for method in METHODS:
                counts[name][method] += one.promoted(method)
    rows_of = {name: of for name, of in counts.items() if rows == ROWS or name == "sampled"}
    return [{"part": "null", "rows": rows, "outcomes": name, "draws": len(draws)} | of for name, of in rows_of.items()]


def run(kind: str, power_draws: int, null_draws: int, pool: ProcessPoolExecutor) -> dict:
    started, rows = time.perf_counter(), []
    powers = [range(at, min(at + CHUNK, power_draws)) for at in range(0, power_draws, CHUNK)]
    nulls = [range(at, min(at + CHUNK, null_draws)) for at in range(0, null_draws, CHUNK)]
    futures = [[pool.submit(power, kind, part) for part in powers]]
    futures += [[pool.submit(null, kind, part, number) for part in nulls] for number in (ROWS, ROWS // 4)]
    for found in futures:
        rows += added([part.result() for part in found])
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return {"table": kind, "rows": rows, "seconds": round(time.perf_counter() - started, 1), "versions": versions}


def failures(result: dict) -> list[str]:
    found = []
    by_outcomes = {row["outcomes"]: row for row in result["rows"] if row["part"] == "power"}
    for method in METHODS:
        own, complete = (by_outcomes[name][method] for name in ("sampled", "complete"))
        if own < LEAST_POWER * complete:
            found.append(f"{result['table']}, {method}: promoted {own}, of complete rows {complete}")
    for row in result["rows"]:
        if row["part"] == "null" and row["outcomes"] == "sampled":
            found += [
                f"{result['table']}, {row['rows']} rows, {method}: false promotion {row[method] / row['draws']:.4f}"
                for method in METHODS
                if row[method] > LIMIT * row["draws"]
            ]
    return found


def main() -> int:
    parser = world_parser(__doc__, OUT)
    parser.add_argument("--power-draws", type=int, default=300, help="per table")
    parser.add_argument("--draws", type=int, default=2_000, help="near the null, per table and number of rows")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    arguments = parser.parse_args()
    failed = []
    with world_pool(arguments) as pool:
        for kind in arguments.tables:
            path = arguments.out / f"{kind}.json"
            if not path.exists():
                write_json(path, run(kind, arguments.power_draws, arguments.draws, pool))
            result = json.loads(path.read_text())
            for row in result["rows"]:
                print(kind, *(f"{key}={value}" for key, value in row.items()), flush=True)
            failed += failures(result)
    return conclude(failed)


if __name__ == "__main__":
    sys.exit(main())
