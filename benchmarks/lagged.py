"""Learning from an older policy: every iteration acts with the policy as it was so many iterations ago, in one process.

.venv/bin/python benchmarks/lagged.py --cells appo-hopper --lag 2 --seeds 0 1 2      # results/learning/appo-hopper-lag2

The first iterations, before which there are not so many, act with the first policy. Finished records are skipped.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from pathlib import Path

from rl_training.bench import LEARNING
from rl_training.bench.learning import run_one
from rl_training.bench.records import read_json, seed_file
from rl_training.core import Policy
from rl_training.experiment.run_directory import write_atomically
from rl_training.runtime import Collector, Phase, Trainer

FOLDER = Path(__file__).parent / "results" / "learning"


def act_late(lag: int) -> None:
    """Lets the next trainer of this process collect with the policy of `lag` iterations ago."""
    plain, versions = Trainer.collect, list[Policy]()

    def collect(trainer: Trainer, phase: Phase, collector: Collector, num_steps: int) -> None:
        current, now = trainer.algorithm.policy, trainer.progress.iterations
        if len(versions) == now:
            versions.append(copy.deepcopy(current))
        trainer.algorithm.policy = versions[max(0, now - lag)]
        plain(trainer, phase, collector, num_steps)
        trainer.algorithm.policy = current

    Trainer.collect = collect


def stored(record: dict, lag: int) -> dict:
    """The record of a cell under the name and with the description of its lag."""
    name, age = record["cell"], "one iteration" if lag == 1 else f"{lag} iterations"
    return record | {
        "cell": f"{name}-lag{lag}",
        "reference": f"{name}, acted by the policy of {age} ago",
        "metadata": record["metadata"] | {"command": f"benchmarks/lagged.py --cells {name} --lag {lag}"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", required=True, choices=list(LEARNING))
    parser.add_argument("--lag", type=int, required=True)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="e.g. training.compile=false")
    options = parser.parse_args()
    plain = Trainer.collect
    for name in options.cells:
        for seed in options.seeds:
            target = seed_file(FOLDER, f"{name}-lag{options.lag}", seed)
            if target.exists():
                continue
            Trainer.collect = plain
            act_late(options.lag)
            with tempfile.TemporaryDirectory() as folder:
                run_one(name, seed, Path(folder), options.settings)
                record = stored(read_json(seed_file(Path(folder), name, seed)), options.lag)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
