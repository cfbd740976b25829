"""What an interval from the first half of a table says of the second half, by time and at random.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/halves.py --data DIR

LiveCodeBench has the dates of its contests (May 2023 to April 2025). Logs of 20,000 rows are drawn from the earlier half of its tasks,
with static tables and candidates as in gate.py; the truth is the candidate's gain over the later half. "random" divides the tasks by
chance instead. `own` is the coverage of the half that the log is from (nominal .95), `other` that of the other half by the same
interval, `next_tasks` that of the other half by the interval for as many other tasks (`sage.proof.power.over_next_tasks`, with the
error of the tasks taken from the table). Result: benchmarks/sage/results/halves.json.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from gate import World
from pools import FILES, load_pool
from quick_gate import draw, judge

from rl_base.evaluation import interval
from sage.evidence.table_rewards import table_rewards, table_weights
from sage.files import write_json
from sage.proof.evaluation import LEVEL
from sage.proof.power import over_next_tasks

OUT = Path(__file__).parent / "results" / "halves.json"
TABLE = "livecodebench"


def world_of(reward: np.ndarray, category: np.ndarray, size: int, bounds: tuple[float, float]) -> World:
    share = np.stack([np.bincount(category, column, size) for column in reward.T], axis=1) / len(reward)
    return World(TABLE, reward, category, share, bounds)


def dates(folder: Path, tasks: np.ndarray) -> np.ndarray:
    rows = pq.read_table(folder / FILES[TABLE], columns=["task_id", "contest_date"]).to_pydict()
    found = dict(zip(rows["task_id"], rows["contest_date"], strict=True))
    return np.array([found[task] for task in tasks])


def covered(own: World, other: World, draws: int, seed: int) -> dict[str, float]:
    rows = []
    for number in range(draws):
        log = draw(own, (51, seed, number), -1.0, 1.0)
        found = judge(log)
        if found.refused or found.gone:
            continue
        choices = [np.zeros(len(own.share), np.int64) for _ in range(2)]
        for choice, by_row in zip(choices, (log.candidate, log.static), strict=True):
            choice[log.category] = by_row
        chosen = [own.reward[np.arange(len(own.reward)), choice[own.category]] for choice in choices]
        of_tasks = float((chosen[0] - chosen[1]).std(ddof=1) / np.sqrt(len(own.reward)))
        truth = other.value(choices[0]) - other.value(choices[1])
        short = interval(found.lowest, level=LEVEL)
        wide = over_next_tasks(short, found.lowest.value, (found.lowest.standard_error, of_tasks))
        rows.append(
            {
                "own": short.low <= log.gain <= short.high,
                "other": short.low <= truth <= short.high,
                "next_tasks": wide.low <= truth <= wide.high,
                "promoted": short.low > 0,
                "promoted_and_worse_on_the_other": short.low > 0 >= truth,
            }
        )
    return {"draws": len(rows)} | {name: round(float(np.mean([row[name] for row in rows])), 5) for name in rows[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    table = load_pool(TABLE, arguments.data)
    reward, bounds = table_rewards(table), table_weights(table).bounds
    names, category = np.unique(table.category, return_inverse=True)
    first = np.zeros(len(table), bool)
    first[np.argsort(dates(arguments.data, table.task_id), kind="stable")[: len(table) // 2]] = True
    result: dict = {}
    for seed, (name, half) in enumerate({"time": first, "random": np.random.default_rng(0).permutation(first)}.items()):
        worlds = [world_of(reward[part], category[part], len(names), bounds) for part in (half, ~half)]
        result[name] = covered(*worlds, arguments.draws, seed)
        print(name, result[name], flush=True)
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    write_json(arguments.out, {"table": TABLE, "tasks": len(table)} | result | {"versions": versions})
    return 0


if __name__ == "__main__":
    sys.exit(main())
