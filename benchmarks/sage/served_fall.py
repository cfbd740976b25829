"""How soon the gate refuses a policy whose model fell after the promotion, and how often it does without a fall.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/served_fall.py --data DIR --processes 2

Static tables (`random`) and candidates are drawn as in gate.py, with a gain of more than 2 points that is at most 18 where the two
differ. 5,000 or 20,000 rows are logged as there, by the static table with .3 of exploration; only logs on which the gate promotes
the candidate by its default interval count. Then the candidate serves, with .1 of exploration, until it took 500 more decisions in
which it differs from the static table. The trend (`sage.proof.trend`) is looked at after every hundredth of these. What happens:

- fall: from the promotion on, rewards of the candidate's models are 20 points lower where the policies differ (some become the
  lowest possible), which is below the table's;
- later: the same, after 3,000 good decisions that the candidate took;
- nothing: no change, and no change for 3,000 decisions before (`nothing, later`);
- harder: in the categories where the policies differ, tasks became harder for all models.

"refused" is the share of runs refused at any of the five looks, "at_last" at the last alone, and "still_promoted" what the interval
of the whole log lets through at the last look, in 20 of the runs. Wanted: at least .8 of falls are refused, and at most .02
are without one, at the last look. Exits with 1 if not. The level and the divisions of the test were chosen on
LiveCodeBench and SWE-bench, with runs 100 to 199 that are among those recorded; RouteLLM and llmrouter had no part in it. One file per
table and number of rows in --out; those that are there are not computed again. near_null.py says what --packed is.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate import EPSILON, World, draw_pair
from near_null import WORLDS, conclude, open_worlds, world_parser, world_pool
from pools import FILES
from quick_gate import Log, judge

from rl_base.evaluation import BanditLog
from sage.files import write_json
from sage.proof.evaluation import ANYTIME, compare
from sage.proof.trend import find_trend

OUT = Path(__file__).parent / "results" / "served_fall"
SIZES = (5_000, 20_000)  # rows before the promotion
SERVING = 0.1  # of exploration
FALL, GAIN, MOST_GAIN = 0.2, 0.02, 0.18
LOOKS, EVERY, BEFORE = 5, 100, 3_000
SCENARIOS = ("fall", "later", "nothing", "nothing, later", "harder")
STILL = 20  # runs in which the interval of the whole log is computed
POWER, FALSE = 0.8, 0.02
CHUNK = 10  # runs that a process makes at a time


class Run(NamedTuple):
    """Rows before and after a promotion."""

    category: np.ndarray
    task: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    propensity: np.ndarray  # [n, models]
    static: np.ndarray
    candidate: np.ndarray
    serves: np.ndarray  # bool [n]: the candidate decides
    bounds: tuple[float, float]

    def first(self, rows: int) -> Run:
        return self._replace(**{name: getattr(self, name)[:rows] for name in self._fields[:-1]})

    def log(self) -> BanditLog:
        return BanditLog(
            actions=self.action,
            rewards=self.reward,
            propensities=self.propensity,
            features=self.category[:, None],
            clusters=self.task,
            reward_range=self.bounds,
        )

    @property
    def policies(self) -> tuple[np.ndarray, np.ndarray]:
        one_hot = np.eye(self.propensity.shape[1])
        return one_hot[self.candidate], one_hot[self.static]


class Pair(NamedTuple):
    """A static table and a candidate, and how probable it is that a success is lost in a fall."""

    static: np.ndarray
    candidate: np.ndarray
    lost: float


def draw_candidate(world: World, rng: np.random.Generator) -> Pair:
    low, high = world.bounds
    while True:
        static, candidate = draw_pair(world, rng, "random")
        differ = (static != candidate)[world.category]
        rewards = [
            world.reward[np.arange(len(differ)), choice[world.category]][differ] for choice in (candidate, static)
        ]
        own, usual = (float(values.mean()) - low for values in rewards)
        gain = world.value(candidate) - world.value(static)
        points = high - low
        if gain > GAIN and own - usual <= MOST_GAIN * points and usual > FALL * points:
            return Pair(static, candidate, FALL * points / own)


def draw_rows(
    world: World, rng: np.random.Generator, pair: Pair, rows: int, *, serves: bool, first_task: int, fall: str = ""
) -> Run:
    num_tasks, size = world.reward.shape
    cluster = rng.integers(num_tasks, size=rows)
    task = rng.integers(num_tasks, size=num_tasks)[cluster]
    category = world.category[task]
    static, candidate = pair.static[category], pair.candidate[category]
    choice, share = (candidate, SERVING) if serves else (static, EPSILON)
    propensity = np.full((rows, size), share / size)
    propensity[np.arange(rows), choice] += 1 - share
    action = np.where(rng.random(rows) < share, rng.integers(size, size=rows), choice)
    struck = (static != candidate) & (rng.random(rows) < pair.lost)
    struck &= (action == candidate) | (fall == "harder")
    reward = np.where(struck & bool(fall), world.bounds[0], world.reward[task, action])
    serving = np.full(rows, serves)
    return Run(category, first_task + cluster, action, reward, propensity, static, candidate, serving, world.bounds)


def joined(parts: list[Run]) -> Run:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Run._fields[:-1]}
    return parts[0]._replace(**columns)


def taken(run: Run) -> np.ndarray:
    """int [n]: the decisions that the candidate took so far, where the policies differ."""
    return np.cumsum(run.serves & (run.static != run.candidate) & (run.action == run.candidate))


def until(world: World, rng: np.random.Generator, pair: Pair, decisions: int, first_task: int, fall: str = "") -> Run:
    """Rows in which the candidate serves until it took so many decisions."""
    rate = 0.8 * np.isin(world.category, np.flatnonzero(pair.static != pair.candidate)).mean()
    rows = round(1.5 * decisions / rate) + 50
    run = draw_rows(world, rng, pair, rows, serves=True, first_task=first_task, fall=fall)
    count = taken(run)
    assert count[-1] >= decisions
    return run.first(int(np.searchsorted(count, decisions)) + 1)


def promoted(run: Run, world: World) -> bool:
    log = Log(*run[:4], run.static, run.candidate, 0.0, world.reward.shape[1], run.bounds)
    return judge(log).promoted("anytime")


def one_run(world: World, seed: tuple[int, ...], rows: int, scenario: str, *, whole: bool) -> dict[str, float]:
    rng, tasks = np.random.default_rng(seed), len(world.reward)
    while True:
        pair = draw_candidate(world, rng)
        before = draw_rows(world, rng, pair, rows, serves=False, first_task=0)
        if promoted(before, world):
            break
    parts = [before]
    if "later" in scenario:
        parts.append(until(world, rng, pair, BEFORE, tasks))
    parts.append(until(world, rng, pair, LOOKS * EVERY, 2 * tasks, "" if "nothing" in scenario else scenario))
    run = joined(parts)
    known, count = len(run.task) - len(parts[-1].task), taken(run)
    start = int(count[known - 1])
    fell = [looked(run.first(int(np.searchsorted(count, start + EVERY * look)) + 1)) for look in range(1, LOOKS + 1)]
    return {
        "refused": any(fell),
        "at_last": fell[-1],
        "still_promoted": float(still_promoted(run)) if whole else np.nan,
    }


def looked(run: Run) -> bool:
    found = find_trend(
        run.log(),
        *run.policies,
        observed=np.ones(len(run.task), bool),
        time=np.arange(len(run.task), dtype=np.float64),
        served=run.serves,
    )
    return found is not None and found.fell


def still_promoted(run: Run) -> bool:
    report, _ = compare(run.log(), *run.policies, observed=np.ones(len(run.task), bool), method=ANYTIME)
    return report.refusal is None and report.interval is not None and report.interval.low > 0


def many(kind: str, rows: int, scenario: str, numbers: range) -> list[dict[str, float]]:
    world, place = WORLDS[kind], (list(FILES).index(kind), rows, SCENARIOS.index(scenario))
    return [one_run(world, (49, *place, number), rows, scenario, whole=number < STILL) for number in numbers]


def run_all(kind: str, rows: int, runs: int, pool: ProcessPoolExecutor) -> dict:
    started, cells = time.perf_counter(), []
    parts = [range(at, min(at + CHUNK, runs)) for at in range(0, runs, CHUNK)]
    futures = {scenario: [pool.submit(many, kind, rows, scenario, part) for part in parts] for scenario in SCENARIOS}
    for scenario, chunks in futures.items():
        found = [row for chunk in chunks for row in chunk.result()]
        means = {name: round(float(np.nanmean([row[name] for row in found])), 5) for name in found[0]}
        cells.append({"scenario": scenario, "runs": len(found)} | means)
        print(kind, rows, *cells[-1].values(), flush=True)
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    seconds = round(time.perf_counter() - started, 1)
    return {"table": kind, "rows": rows, "cells": cells, "seconds": seconds, "versions": versions}


def failures(result: dict) -> list[str]:
    found = []
    for cell in result["cells"]:
        where = f"{result['table']}, {result['rows']} rows, {cell['scenario']}"
        if cell["scenario"] in ("fall", "later") and cell["refused"] < POWER:
            found.append(f"{where}: refused in {cell['refused']:.3f} of runs")
        if cell["scenario"].startswith("nothing") and cell["at_last"] > FALSE:
            found.append(f"{where}: refused in {cell['at_last']:.3f} of runs")
    return found


def main() -> int:
    parser = world_parser(__doc__, OUT)
    parser.add_argument("--runs", type=int, default=200, help="per table, number of rows and scenario")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--rows", nargs="+", type=int, default=list(SIZES))
    arguments = parser.parse_args()
    failed = []
    open_worlds(arguments.data, arguments.packed)
    with world_pool(arguments) as pool:
        for kind, rows in product(arguments.tables, arguments.rows):
            path = arguments.out / f"{kind}-{rows}.json"
            if not path.exists():
                write_json(path, run_all(kind, rows, arguments.runs, pool))
            failed += failures(json.loads(path.read_text()))
    return conclude(failed)


if __name__ == "__main__":
    sys.exit(main())
