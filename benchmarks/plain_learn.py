"""Whole `learn` calls of short runs beside Stable-Baselines3: defaults of both libraries, one thread, an empty cache.

python benchmarks/plain_learn.py --peer-python PATH [--cells dqn-cartpole-plain] [--repeats 3]

Every call is a process of its own, ours and the peer's in turns; ours compiles where `compile="auto"` does, into a new
folder. Imports are not counted. Wall seconds, and CPU seconds with those of child processes: the C++ compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CELLS = {
    "dqn-cartpole-plain": ({"algorithm": "DQN", "env": "CartPole-v1", "n_envs": 1, "threads": 1}, 20_000),
    "sac-halfcheetah-plain": ({"algorithm": "SAC", "env": "HalfCheetah-v5", "n_envs": 1, "threads": 1}, 10_000),
}


def cpu_seconds() -> float:
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


def learn(side: str, cell: str) -> dict[str, float]:
    """Makes a learner of this cell and trains it, in this process."""
    work, steps = CELLS[cell]
    if side == "ours":
        from rl_training.bench import speed

        def whole() -> object:
            return speed.build_ours(work | {"compile": "auto"}).learn(steps, progress=False)
    else:
        sys.path.insert(0, str(HERE / "peers"))
        import sb3_speed

        def whole() -> object:
            return sb3_speed.build(work | {"device": "cpu"})(steps)

    wall, cpu = time.perf_counter(), cpu_seconds()
    whole()
    return {"wall_s": round(time.perf_counter() - wall, 2), "cpu_s": round(cpu_seconds() - cpu, 2)}


def call(python: str, side: str, cell: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"RL_TRAINING_CACHE": cache, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [python, __file__, "--side", side, "--cells", cell], env=environment, check=True, stdout=subprocess.PIPE
        )
    measured = json.loads(done.stdout.splitlines()[-1]) | {"load": round(os.getloadavg()[0], 1)}
    print(cell, side, measured, flush=True)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python", help="an interpreter that has Stable-Baselines3 and sb3-contrib")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "plain_learn.json")
    parser.add_argument("--side", choices=("ours", "sb3"), help="only one call of this side, in this process")
    chosen = parser.parse_args()
    if chosen.side:
        print(json.dumps(learn(chosen.side, chosen.cells[0])))
        return
    if not chosen.peer_python:
        parser.error("--peer-python is missing: give an interpreter that has Stable-Baselines3")
    results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for cell in chosen.cells:
        pairs = [
            (call(sys.executable, "ours", cell), call(chosen.peer_python, "sb3", cell)) for _ in range(chosen.repeats)
        ]
        row: dict[str, object] = {"steps": CELLS[cell][1]}
        for number, side in enumerate(("ours", "sb3")):
            row[side] = [pair[number] for pair in pairs]
        for unit in ("wall_s", "cpu_s"):
            ratios = [round(peer[unit] / ours[unit], 2) for ours, peer in pairs]
            row[f"ratio_{unit.removesuffix('_s')}"] = {
                "median": statistics.median(ratios),
                "min": min(ratios),
                "max": max(ratios),
            }
        results[cell] = row | {"measured": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        chosen.out.write_text(json.dumps(results, indent=2) + "\n")
        print(cell, {key: value for key, value in row.items() if key.startswith("ratio")}, flush=True)


if __name__ == "__main__":
    main()
