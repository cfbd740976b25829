"""The gate at planned looks (`--final-rows`): how often it promotes what is hardly worse, what it covers, and what it finds.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/planned_looks.py --data DIR --processes 2

Logs, static tables (`random`) and candidates are drawn as in gate.py, from all outcome tables, as in near_null.py (which also says
what --pack and --packed are for). Every log is judged after each twentieth of its 2,000, 5,000 or 20,000 rows. Of the same log:
planned looks, 5 and 20 of them, evenly spaced; the anytime interval at all 20 (not near the null, where near_null.py has it); the
fixed-n interval at the last alone. The first promotion counts.

- null: candidates that are 0 to .3 points worse;
- small: candidates that are 1 to 2 points better.

Wanted, for planned looks: false promotion at most .0365 in every cell (table, rows, number of looks) and .025 over all; coverage .93
to .97 in every cell, over the draws of both kinds in which the last look is not refused ("covered": the truth is in the interval of
every look; "covered_last": in that of the last); power for small gains closes at least .6 of the gap between the anytime
and the fixed-n interval, over the tables at each number of rows and in every cell with a gap of .05 or more. Exits with 1 if not. No
setting is chosen on these tables. One file per cell in --out; those that are there are not computed again.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from near_null import LIMIT, POOLED_LIMIT, WORLDS, conclude, exists, open_worlds, world_parser, world_pool
from quick_gate import Found, check, draw, judge

from rl_base.evaluation import interval
from sage.files import write_json
from sage.proof.evaluation import LEVEL
from sage.proof.look_plan import LookPlan

OUT = Path(__file__).parent / "results" / "planned_looks"
ROWS = (2_000, 5_000, 20_000)
LOOKS, PLANNED = 20, (5, 20)
KINDS = {"null": (-0.003, 0.0), "small": (0.01, 0.02)}
COVERAGE, CLOSED, LEAST_GAP = (0.93, 0.97), 0.6, 0.05
CHUNK = 25  # draws that a process makes at a time


class Cell(NamedTuple):
    """One file of results."""

    table: str
    rows: int
    kind: str

    @property
    def path(self) -> str:
        return f"{self.table}-{self.rows}-{self.kind}.json"


def levels(rows: int, number: int) -> list[float]:
    """The levels of evenly spaced planned looks, as the gate has them."""
    counts = [rows * look // number for look in range(1, number + 1)]
    return [LookPlan(final_rows=rows, earlier=tuple(counts[:k])).level(count, LEVEL) for k, count in enumerate(counts)]


def planned(found: list[Found], gain: float, rows: int, number: int) -> dict[str, float]:
    every = found[LOOKS // number - 1 :: LOOKS // number]
    judged = [
        (interval(one.lowest, method="t", level=level), one)
        for level, one in zip(levels(rows, number), every, strict=True)
        if not one.refused and not one.gone
    ]
    inside = [found.low <= gain <= found.high for found, _ in judged]
    last = judged and every[-1] is judged[-1][1]
    return {
        f"promoted_{number}": any(found.low > 0 for found, _ in judged),
        f"covered_{number}": all(inside) if last else np.nan,
        f"covered_last_{number}": inside[-1] if last else np.nan,
    }


def one_draw(cell: Cell, number: int) -> dict[str, float]:
    seed = (48, zlib.crc32(f"{cell.table}-{cell.rows}-{cell.kind}".encode()), number)
    log = draw(WORLDS[cell.table], seed, *KINDS[cell.kind])
    found = [judge(log.first(cell.rows * look // LOOKS)) for look in range(1, LOOKS + 1)]
    answers = {
        "fixed": found[-1].promoted(),
        "anytime": np.nan if cell.kind == "null" else any(one.promoted("anytime") for one in found),
        "refused": found[-1].refused or found[-1].gone,
    }
    for looks in PLANNED:
        answers |= planned(found, log.gain, cell.rows, looks)
    return answers


def draw_many(cell: Cell, numbers: range) -> list[dict[str, float]]:
    return [one_draw(cell, number) for number in numbers]


def checked(name: str, rows: int) -> None:
    """The gate itself must say the same of one log."""
    check(draw(WORLDS[name], (48, 0), *KINDS["null"]).first(min(rows, 5_000)))


def summary(rows: list[dict[str, float]]) -> dict[str, float | None]:
    """The share of draws of each answer; nan are left out."""
    columns = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
    return {
        name: round(float(np.nanmean(values)), 5) if not np.isnan(values).all() else None
        for name, values in columns.items()
    } | {"draws": len(rows), "judged": int((~np.isnan(columns[f"covered_{LOOKS}"])).sum())}


def coverage(cells: list[dict], looks: int, name: str = "covered") -> tuple[float, int]:
    """The coverage over several kinds of candidates, and the draws that count."""
    counts = [(cell["judged"], cell[f"{name}_{looks}"]) for cell in cells if cell["judged"]]
    total = sum(judged for judged, _ in counts)
    return (sum(judged * share for judged, share in counts) / total if total else 0.0), total


def closed(cells: list[dict], looks: int) -> tuple[float, float]:
    """The share of the gap between the anytime and the fixed-n interval that planned looks close, and the gap."""
    fixed, anytime, own = (
        float(np.mean([c[name] for c in cells])) for name in ("fixed", "anytime", f"promoted_{looks}")
    )
    return (own - anytime) / max(fixed - anytime, 1e-9), fixed - anytime


def judge_cells(cells: list[dict], least_judged: int) -> tuple[dict, list[str]]:
    """The numbers that the wanted values are about, and what misses them."""
    found: list[str] = []
    null, small = ([cell for cell in cells if cell["kind"] == kind] for kind in KINDS)
    told: dict = {"pooled_false_promotion": {}, "gap_closed": {}, "coverage": []}
    for looks in PLANNED:
        rates = [cell[f"promoted_{looks}"] for cell in null]
        pooled = told["pooled_false_promotion"][looks] = float(np.mean(rates))
        if pooled > POOLED_LIMIT:
            found.append(f"{looks} looks: false promotion {pooled:.4f} over all cells")
        found += [
            f"{cell['table']}, {cell['rows']} rows, {looks} looks: false promotion {rate:.4f}"
            for cell, rate in zip(null, rates, strict=True)
            if rate > LIMIT
        ]
        for table, rows in sorted({(cell["table"], cell["rows"]) for cell in cells}):
            here = [cell for cell in cells if (cell["table"], cell["rows"]) == (table, rows)]
            (share, judged), (last, _) = coverage(here, looks), coverage(here, looks, "covered_last")
            row = {
                "table": table,
                "rows": rows,
                "looks": looks,
                "covered": share,
                "covered_last": last,
                "judged": judged,
            }
            told["coverage"].append(row)
            if judged >= least_judged and not COVERAGE[0] <= share <= COVERAGE[1]:
                found.append(f"{table}, {rows} rows, {looks} looks: coverage {share:.4f} of {judged} draws")
        for rows in sorted({cell["rows"] for cell in small}):
            here = [cell for cell in small if cell["rows"] == rows]
            share, gap = closed(here, looks)
            told["gap_closed"][f"{rows} rows, {looks} looks"] = {"closed": share, "gap": gap}
            if gap >= LEAST_GAP and share < CLOSED:
                found.append(f"{rows} rows, {looks} looks: {share:.2f} of the gap of {gap:.3f} closed")
            for cell in here:
                own, own_gap = closed([cell], looks)
                if own_gap >= LEAST_GAP and own < CLOSED:
                    found.append(
                        f"{cell['table']}, {rows} rows, {looks} looks: {own:.2f} of the gap of {own_gap:.3f} closed"
                    )
    return told, found


def run(cell: Cell, draws: int, pool: ProcessPoolExecutor) -> dict:
    started, head = time.perf_counter(), cell._asdict()
    if not exists(WORLDS[cell.table], KINDS[cell.kind]):
        return head | {"skipped": "no candidate has such a gain"}
    checked(cell.table, cell.rows)
    parts = [range(at, min(at + CHUNK, draws)) for at in range(0, draws, CHUNK)]
    futures = [pool.submit(draw_many, cell, part) for part in parts]
    found = summary([row for future in futures for row in future.result()])
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return head | found | {"seconds": round(time.perf_counter() - started, 1), "versions": versions}


def main() -> int:
    parser = world_parser(__doc__, OUT)
    parser.add_argument("--draws", type=int, default=2_000, help="near the null, per table and number of rows")
    parser.add_argument("--small-draws", type=int, default=1_000, help="of small gains, per table and number of rows")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--tables", nargs="+", help="default: all")
    arguments = parser.parse_args()
    open_worlds(arguments.data, arguments.packed)
    wanted, results = {"null": arguments.draws, "small": arguments.small_draws}, []
    with world_pool(arguments) as pool:
        for name, rows, kind in product(arguments.tables or list(WORLDS), arguments.rows, KINDS):
            cell = Cell(name, rows, kind)
            path = arguments.out / cell.path
            if not path.exists():
                write_json(path, run(cell, wanted[kind], pool))
            results.append(json.loads(path.read_text()))
            print(*cell, {key: value for key, value in results[-1].items() if key not in Cell._fields}, flush=True)
    told, failed = judge_cells([result for result in results if "skipped" not in result], wanted["null"])
    print(json.dumps(told, indent=1))
    return conclude(failed)


if __name__ == "__main__":
    sys.exit(main())
