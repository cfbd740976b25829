"""Tries settings of a learning cell on a few seeds, several at a time: for choosing, on seeds that no result is reported on.

.venv/bin/python benchmarks/try_settings.py --cell impala-hopper --seeds 10 11 12 --jobs 2 --out tried.json \\
  --try "algorithm.n_epochs=2" --try "algorithm.n_epochs=4 algorithm.learning_rate=lin_2e-4"

Writes one row for each run when it ends, and lists the settings by their mean score. What is finished is skipped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from rl_training.bench import LEARNING
from rl_training.bench.learning import run_one
from rl_training.bench.records import read_json, seed_file
from rl_training.experiment.run_directory import write_atomically


def tried(trial: tuple[str, str, int]) -> dict:
    """One run, in a process of its own."""
    cell, settings, seed = trial
    with tempfile.TemporaryDirectory() as folder:
        run_one(cell, seed, Path(folder), settings.split())
        record = read_json(seed_file(Path(folder), cell, seed))
    evaluations = [round(mean, 1) for _, mean in record["evaluations"]]
    return {"cell": cell, "set": settings, "seed": seed, "score": round(record["score"], 1), "evaluations": evaluations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", required=True, choices=list(LEARNING))
    parser.add_argument("--seeds", nargs="+", type=int, required=True)
    parser.add_argument("--try", action="append", required=True, dest="settings", metavar="KEY=VALUE ...")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = read_json(options.out) if options.out.exists() else []
    finished = {(row["cell"], row["set"], row["seed"]) for row in rows}
    trials = [(options.cell, settings, seed) for seed in options.seeds for settings in options.settings]
    context = multiprocessing.get_context("forkserver")  # samplers need processes that may have children, unlike Pool's
    with ProcessPoolExecutor(options.jobs, context, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(tried, trial) for trial in trials if trial not in finished]):
            row = done.result()
            rows.append(row)
            print(row["set"], row["seed"], row["score"], flush=True)
            write_atomically(options.out, "[\n " + ",\n ".join(json.dumps(row) for row in rows) + "\n]\n")
    scores = defaultdict(list)
    for row in rows:
        scores[row["set"]].append(row["score"])
    for settings, found in sorted(scores.items(), key=lambda item: -statistics.mean(item[1])):
        print(f"{statistics.mean(found):8.1f} {found} {settings}")


if __name__ == "__main__":
    main()
