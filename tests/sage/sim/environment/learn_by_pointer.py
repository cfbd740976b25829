"""Trains the policy on one task as `sage sim train` does, goes on, and prints what `sage sim bench` says of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from sage.cli.main import main as sage
from sage.sim.environment import baselines, packed
from tests.sage.sim.environment.test_dynamics import known_table

SETTINGS = ["env.n_envs=64", "algorithm.n_steps=16", "algorithm.batch_size=256", "algorithm.learning_rate=3e-3"]
QUICK = ["evaluation.episodes=10", "training.threads=1"]


def main(folder: Path) -> None:
    baselines.LADDERS, baselines.TRIALS = ((), (4,)), (0, 8)  # what tuning chooses from
    tables = [replace(known_table(), id=split, split=split) for split in ("train", "val", "test_pkg")]
    packed.save(folder / "tables.npz", tables)
    train = ["sim", "train", "--tasks", str(folder / "tables.npz"), "--out", str(folder / "run")]
    assert sage([*train, "--steps", "3072", "--set", *SETTINGS, *QUICK]) == 0
    assert sage([*train, "--steps", "4096", "--set", *SETTINGS, *QUICK]) == 0  # goes on
    assert sage([*train, "--steps", "4096", "--seed", "1", "--set", *SETTINGS, *QUICK]) != 0
    bench = ["sim", "bench", "--checkpoint", str(folder / "run"), "--splits", "test_pkg"]
    assert sage([*bench, "--out", str(folder / "scores.json")]) == 0
    rows = json.loads((folder / "scores.json").read_text())["rows"]
    print("\n" + json.dumps({name.partition(":")[0]: row["normalised"] for name, row in rows.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
