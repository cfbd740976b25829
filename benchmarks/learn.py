"""`rl-training bench learn` with the results of this folder, as scripts here call it; the cells are in the package.

.venv/bin/python benchmarks/learn.py run --cells ppo-cartpole ppo-hopper --seeds 0 1 2 3 4
.venv/bin/python benchmarks/learn.py report
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rl_training.bench import LEARNING, learning
from rl_training.bench.records import stored_cells
from rl_training.bench.summary import summarise

FOLDER = Path(__file__).parent / "results" / "learning"


def run_one(name: str, seed: int, settings: Sequence[str] = ()) -> None:
    learning.run_one(name, seed, FOLDER, settings, lambda text: print(text, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--cells", nargs="*", default=list(LEARNING), choices=list(LEARNING))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="e.g. training.device=cuda")
    options = parser.parse_args()
    if options.action == "report":
        stored = stored_cells(FOLDER)
        print(summarise(FOLDER, [name for name in options.cells if name in stored]).markdown())
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in options.cells:
        for seed in options.seeds:
            run_one(name, seed, options.settings)


if __name__ == "__main__":
    main()
