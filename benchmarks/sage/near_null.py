"""How often the gate promotes a candidate that is hardly worse, by table and number of rows, and what guarding against it costs.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/near_null.py --data DIR --processes 2

Logs, static tables (`random`) and candidates are drawn as in gate.py, from all outcome tables: with the better half of their models,
and (`-everyone`) with all. A candidate that is 0 to .3 points worse is the hardest to tell from a better one. Every number is measured
twice on the same logs: `before` is the interval without outcomes that the log has not shown (`Estimate.unseen`). Parts:

- fixed: one look after 1,000, 2,000, 5,000 and 20,000 rows, with the fixed-n interval;
- looks: 20 looks, evenly spaced up to as many rows, with the anytime interval; the first promotion counts;
- power: candidates that are more than 2 points better, one look after 20,000 rows, both intervals;
- new-model: no table. A model that was added late has the incumbent's success rate (0 to 1, half of them .9 or more), or a lower one,
  in one of four categories, and was tried about 5 to 60 times there, with a probability of .02 to .3. The gate's own functions judge
  (new_model.py). `rows` is the number of tries, rounded down to 5, 15, 30 or 60.

Wanted: false promotion at most .0365 in every cell (table, rows, part) and .025 over all, also without any one table; power at least
.9 times that before. What the gate refuses to estimate does not depend on unseen outcomes, so `refused` is of both. Exits with 1 if
not. One file per cell in --out; those that are there are not computed again. --pack FILE writes the rewards of all tables into one
file, from which --packed FILE reads them without pyarrow.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate import World, draw_pair, load
from new_model import NEW_MODEL, TRIES, judge_new_model
from pools import FILES, MORE_FILES
from quick_gate import Found, check, draw, judge

from rl_base.evaluation import interval
from sage.files import write_json
from sage.proof.evaluation import LEVEL

OUT = Path(__file__).parent / "results" / "near_null"
ROWS = (1_000, 2_000, 5_000, 20_000)
LOOKS = 20
NEAR, CLEAR = (-0.003, 0.0), (0.02, 1.0)
LIMIT, POOLED_LIMIT, LEAST_POWER = 0.0365, 0.025, 0.9
CHUNK = 50  # draws that a process makes at a time
EVERYONE = ("llmrouter", "livecodebench", "swebench", "llmdrift")  # the others have two models
TABLES = (*FILES, *MORE_FILES, *(f"{name}-everyone" for name in EVERYONE))
WORLDS: dict[str, World] = {}  # of this process, which `open_worlds` has opened
METHODS = {"fixed": ("t",), "looks": ("anytime",), "power": ("t", "anytime"), NEW_MODEL: ("t", "anytime")}


class Cell(NamedTuple):
    """One file of results."""

    table: str
    rows: int
    part: str

    @property
    def path(self) -> str:
        return f"{self.table}-{self.rows}-{self.part}.json"


def all_cells(tables: list[str], parts: list[str], rows: list[int]) -> Iterator[Cell]:
    for part in parts:
        if part == NEW_MODEL:
            yield from (Cell(NEW_MODEL, tries, part) for tries in TRIES)
            continue
        for table in tables:
            yield from (Cell(table, n, part) for n in rows if part != "power" or n == max(ROWS))


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Rewards, categories and bounds of all tables, by name."""
    found = {}
    for name in TABLES:
        kind, _, everyone = name.partition("-")
        world = load(kind, folder, everyone=bool(everyone))
        parts = {"reward": world.reward, "category": world.category, "bounds": np.array(world.bounds)}
        found |= {f"{name}/{part}": values for part, values in parts.items()}
    return found


def worlds_of(arrays: dict[str, np.ndarray]) -> dict[str, World]:
    worlds = {}
    for name in dict.fromkeys(key.rpartition("/")[0] for key in arrays):
        reward, category, bounds = (arrays[f"{name}/{part}"] for part in ("reward", "category", "bounds"))
        sums = [np.bincount(category, column) for column in reward.T]
        low, high = bounds.tolist()
        worlds[name] = World(name, reward, category, np.stack(sums, axis=1) / len(reward), (low, high))
    return worlds


def open_worlds(data: Path | None, packed: Path | None) -> None:
    """Opens all tables in this process, from a folder of outcome packs or from one file."""
    assert data is not None or packed is not None
    WORLDS.update(worlds_of(load_arrays(data) if packed is None else dict(np.load(packed))))


def world_pool(arguments: argparse.Namespace) -> ProcessPoolExecutor:
    """Returns processes that have opened all tables."""
    given = (arguments.data, arguments.packed)
    return ProcessPoolExecutor(arguments.processes, initializer=open_worlds, initargs=given)


def world_parser(about: str | None, out: Path) -> argparse.ArgumentParser:
    """Returns a parser of what all programs over these tables take; `out` is where their results are by default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder of the outcome packs")
    source.add_argument("--packed", type=Path, help="file that near_null.py --pack wrote")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=out, help="folder of the results")
    return parser


def conclude(failed: list[str]) -> int:
    """Prints the checks that failed; returns the exit code."""
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


def added(parts: list[list[dict]]) -> list[dict]:
    """The counts of all parts, row by row; texts and the numbers of rows are the same in each."""
    return [
        {
            name: value if isinstance(value, str) or name in ("rows", "deleted") else sum(row[name] for row in rows)
            for name, value in rows[0].items()
        }
        for rows in zip(*parts, strict=True)
    ]


def exists(world: World, limits: tuple[float, float], tries: int = 5_000) -> bool:
    """Whether there are candidates with such a gain."""
    rng = np.random.default_rng(0)
    pairs = (draw_pair(world, rng, "random") for _ in range(tries))
    return any(limits[0] < world.value(candidate) - world.value(static) <= limits[1] for static, candidate in pairs)


def verdicts(found: list[Found], gain: float, method: str) -> dict[str, bool]:
    """Whether any look promotes, and whether any lower bound is above the truth; before is without unseen outcomes."""
    answers = {}
    for name in ("before", "after"):
        lows = [
            interval(
                one.lowest if name == "after" else replace(one.lowest, unseen=None), method=method, level=LEVEL
            ).low
            for one in found
            if not one.refused and not one.gone
        ]
        answers |= {f"promoted_{name}": any(low > 0 for low in lows), f"missed_{name}": any(low > gain for low in lows)}
    return answers


def one_draw(cell: Cell, world: World | None, number: int) -> dict[str, dict[str, bool]]:
    seed = (38, zlib.crc32(cell.path.encode()), number)
    if world is None:
        found, gain = judge_new_model(seed, cell.rows)
        looks = [found]
    else:
        log = draw(world, seed, *(CLEAR if cell.part == "power" else NEAR))
        gain, count = log.gain, LOOKS if cell.part == "looks" else 1
        looks = [judge(log.first(cell.rows * look // count)) for look in range(1, count + 1)]
    refused = looks[-1].refused or looks[-1].gone
    return {method: verdicts(looks, gain, method) | {"refused": refused} for method in METHODS[cell.part]}


def draw_many(cell: Cell, world: World | None, numbers: range) -> list[dict[str, dict[str, bool]]]:
    return [one_draw(cell, world, number) for number in numbers]


def run(cell: Cell, world: World | None, draws: int, pool: ProcessPoolExecutor) -> dict:
    started, head = time.perf_counter(), cell._asdict()
    if world is not None:
        limits = CLEAR if cell.part == "power" else NEAR
        if not exists(world, limits):
            return head | {"skipped": "no candidate has such a gain"}
        check(draw(world, (38, 0), *limits).first(min(cell.rows, 5_000)))
    parts = [range(start, min(start + CHUNK, draws)) for start in range(0, draws, CHUNK)]
    futures = [pool.submit(draw_many, cell, world, part) for part in parts]
    rows = [row for future in futures for row in future.result()]
    answers = {
        method: {name: round(float(np.mean([row[method][name] for row in rows])), 5) for name in rows[0][method]}
        for method in rows[0]
    }
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return head | {"draws": draws, **answers, "seconds": round(time.perf_counter() - started, 1), "versions": versions}


def failures(results: list[dict]) -> list[str]:
    judged = [result for result in results if "skipped" not in result]
    found, rates = [], {}
    for result in judged:
        where = f"{result['table']}, {result['rows']} rows, {result['part']}"
        for method in METHODS[result["part"]]:
            answer = result[method]
            if result["part"] != "power":
                rates.setdefault(result["table"], []).append(answer["promoted_after"])
                if answer["promoted_after"] > LIMIT:
                    found.append(f"{where}, {method}: false promotion {answer['promoted_after']:.4f}")
            elif answer["promoted_after"] < LEAST_POWER * answer["promoted_before"]:
                power = f"{answer['promoted_after']:.3f}, {answer['promoted_before']:.3f} before"
                found.append(f"{where}, {method}: power {power}")
    for left_out in (None, *rates) if len(rates) > 1 else (None,):
        of_others = [rate for table, own in rates.items() if table != left_out for rate in own]
        if of_others and np.mean(of_others) > POOLED_LIMIT:
            found.append(f"false promotion {np.mean(of_others):.4f} over all tables but {left_out}")
    return found


def main() -> int:
    parser = world_parser(__doc__, OUT)
    parser.add_argument("--pack", type=Path, help="write the rewards of all tables of --data into this file, and stop")
    parser.add_argument("--draws", type=int, default=2_000, help="per cell")
    parser.add_argument("--power-draws", type=int, default=500, help="per cell of the part power")
    parser.add_argument("--parts", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--tables", nargs="+", help="default: all")
    arguments = parser.parse_args()
    arrays = load_arrays(arguments.data) if arguments.data else dict(np.load(arguments.packed))
    if arguments.pack:
        arguments.pack.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(arguments.pack, **arrays)
        return 0
    worlds, results = worlds_of(arrays), []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for cell in all_cells(arguments.tables or list(worlds), arguments.parts, arguments.rows):
            path = arguments.out / cell.path
            if not path.exists():
                draws = arguments.power_draws if cell.part == "power" else arguments.draws
                write_json(path, run(cell, worlds.get(cell.table), draws, pool))
            results.append(json.loads(path.read_text()))
            print(*cell, {name: results[-1].get(name) for name in ("skipped", *METHODS[cell.part])}, flush=True)
    failed = failures(results)
    return conclude(failed)


if __name__ == "__main__":
    sys.exit(main())
