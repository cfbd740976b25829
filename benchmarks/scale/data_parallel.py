"""Whether two ranks learn as well as one process: PPO's preset for CartPole, three seeds each.

OMP_NUM_THREADS=1 PYTHONPATH=src .venv/bin/python benchmarks/scale/data_parallel.py

Trains with `rl-training train` and with torchrun, and writes benchmarks/results/scale/data_parallel.json (or --out): the
return of the last evaluation (20 episodes), and CPU seconds of all processes, start and evaluations included. Exits with 1 if
a seed stays below 475, at which gymnasium calls the task solved.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

OUT = Path(__file__).parent.parent / "results" / "scale" / "data_parallel.json"
SOLVED = 475


def train(preset: str, seed: int, ranks: int, overrides: list[str]) -> dict[str, float]:
    before = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        launch = [] if ranks == 1 else ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        settings = [word for override in overrides for word in ("--set", override)]
        words = ["train", preset, "--seed", str(seed), "--run-dir", str(run), "--quiet", *settings]
        subprocess.run([sys.executable, *launch, "-m", "rl_training", *words], check=True, stdout=subprocess.DEVNULL)
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "return": result["eval_mean_return"],
        "env_steps": result["total_timesteps"],
        "gradient_steps": result["gradient_steps"],
        "cpu_seconds": round(cpu_seconds() - before, 1),
    }


def cpu_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def store(path: Path, found: dict) -> None:
    means = {name: sum(row["return"] for row in rows) / len(rows) for name, rows in found["runs"].items()}
    machine = {"machine": f"{platform.machine()}, two cores shared with other work", "torch": torch.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found | {"mean_return": means} | machine, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--preset", default="ppo/cartpole")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="overrides")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {}
    for seed in options.seeds:
        for ranks in options.ranks:
            row = train(options.preset, seed, ranks, options.overrides)
            runs.setdefault(f"{ranks} rank{'s' if ranks > 1 else ''}", []).append(row)
            print(ranks, row, flush=True)
            store(options.out, {"preset": options.preset, "set": options.overrides, "runs": runs})
    return int(any(row["return"] < SOLVED for rows in runs.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
